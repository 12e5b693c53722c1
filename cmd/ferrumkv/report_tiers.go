package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/cmd/internal/runner"
	"github.com/ferrumkv/ferrumkv/kvcache"
)

// tierRow is what a generation did with a tier, as --json prints it.
type tierRow struct {
	Name         string `json:"name"`
	Medium       string `json:"medium"`
	ReusedTokens int    `json:"reused_tokens"` // of prompts, that came from it
	LoadedBytes  int64  `json:"loaded_bytes"`
	StoredBytes  int64  `json:"stored_bytes"` // that were written, not those that it had
	Blocks       int64  `json:"blocks"`       // that it has now
	Bytes        int64  `json:"bytes"`
	Capacity     int64  `json:"capacity_bytes"`
	FailedCalls  int64  `json:"failed_calls"`
	Corrupt      int64  `json:"corrupt_blocks"`  // found damaged, and computed instead
	Declined     int64  `json:"declined_blocks"` // which the tier had no room for, or did not want
}

// tiersReport is the part of a report about tiers; nil: there are none.
type tiersReport struct {
	ReusedFromDevice int       `json:"reused_tokens_device"`
	LoadSeconds      float64   `json:"load_seconds"` // waited for tiers
	BlockBytes       int64     `json:"tier_block_bytes"`
	Reason           string    `json:"tier_reason,omitempty"` // why the last load loaded as much as it did
	Tiers            []tierRow `json:"tiers"`
}

func newTiersReport(r runner.Report, s kvcache.Stats) *tiersReport {
	if len(s.Tiers) == 0 {
		return nil
	}
	t := &tiersReport{LoadSeconds: r.Load.Seconds(), BlockBytes: s.Moves.BlockBytes, Reason: s.Moves.Reason}
	for i, x := range s.Tiers {
		row := tierRow{Name: x.Name, Medium: string(x.Medium), LoadedBytes: x.Moves.LoadedBytes, StoredBytes: x.Stats.Written, Blocks: x.Stats.Blocks,
			Bytes: x.Stats.Bytes, Capacity: x.Stats.Capacity, FailedCalls: x.Moves.Errors + x.Moves.Panics + x.Moves.Timeouts + x.Moves.Wrong, Corrupt: x.Stats.Corrupt, Declined: x.Stats.Declined}
		for _, m := range r.Matches {
			if m.Tiers != nil {
				row.ReusedTokens += m.Tiers[i]
			}
		}
		t.Tiers = append(t.Tiers, row)
	}
	for _, m := range r.Matches {
		t.ReusedFromDevice += m.Cached
	}
	for _, row := range t.Tiers {
		t.ReusedFromDevice -= row.ReusedTokens
	}
	return t
}

// from says where what was reused came from.
func (t *tiersReport) from() string {
	parts := []string{fmt.Sprintf("%d from the device", t.ReusedFromDevice)}
	for _, row := range t.Tiers {
		parts = append(parts, fmt.Sprintf("%d from %s", row.ReusedTokens, row.Name))
	}
	out := ": " + strings.Join(parts, ", ")
	if t.LoadSeconds > 0 {
		out += ", in " + seconds(t.LoadSeconds)
	}
	return out
}

func (t *tiersReport) write(w *strings.Builder) {
	for i, row := range t.Tiers {
		what := ""
		if i == 0 {
			what = "tiers"
		}
		fmt.Fprintf(w, "%-8s %s: %s loaded, %s stored, has %s of %s", what, row.Name, byteSize(row.LoadedBytes), byteSize(row.StoredBytes), byteSize(row.Bytes), byteSize(row.Capacity))
		if row.FailedCalls > 0 {
			fmt.Fprintf(w, ", %s failed", count(int(row.FailedCalls), "call"))
		}
		if row.Corrupt > 0 {
			fmt.Fprintf(w, ", %s damaged", count(int(row.Corrupt), "block"))
		}
		if row.Declined > 0 {
			fmt.Fprintf(w, ", %s declined", count(int(row.Declined), "block"))
		}
		w.WriteByte('\n')
	}
}

// storeWait is how long a run waits, at its end, until what it computed is in tiers.
const storeWait = 10 * time.Second
