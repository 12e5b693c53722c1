package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
	"github.com/spf13/cobra"
)

// replayTierFlags describe what is below the cache, and how fast.
type replayTierFlags struct {
	host, disk, admission string
	tokenBytes            string
	prefill               float64
	hostRate, diskRate    string
}

// defaultTokenBytes is that of models with 32 layers of 8 KV heads of 128 in f16, such as Llama-3.1-8B.
const defaultTokenBytes = "128KiB"

// defaultHostRate and defaultDiskRate are assumed, and a little below what 16 lanes of PCIe 4.0 and a disk at 4 of PCIe 3.0 could do.
const defaultHostRate, defaultDiskRate = "20GB", "3GB"

func (f *replayTierFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.host, "host", "", "a tier of host memory of `BLOCKS`, or of a multiple of the capacity, such as 4x")
	flags.StringVar(&f.disk, "disk", "", "a tier on a disk of `BLOCKS`, or of a multiple of the capacity, such as 20x")
	flags.StringVar(&f.admission, "disk-admission", "", admissionUsage)
	flags.StringVar(&f.tokenBytes, "token-bytes", defaultTokenBytes, "`BYTES` of a token's keys and values, as 'ferrumkv doctor' says")
	flags.Float64Var(&f.prefill, "prefill-rate", 0, "`TOKENS` of prompts that are computed a second: for the time to the first token")
	flags.StringVar(&f.hostRate, "host-rate", "", "`BYTES` a second that are loaded from host memory (default with --prefill-rate: "+defaultHostRate+")")
	flags.StringVar(&f.diskRate, "disk-rate", "", "`BYTES` a second that are loaded from the disk; 'ferrumkv doctor --disk' measures it (default with --prefill-rate: "+defaultDiskRate+")")
}

// tiers are what was asked for.
func (f *replayTierFlags) tiers(cmd *cobra.Command) (t replay.Tiers, err error) {
	for _, room := range [...]struct {
		name, text string
		to         *replay.Room
	}{{"host", f.host, &t.Host}, {"disk", f.disk, &t.Disk}} {
		if cmd.Flags().Changed(room.name) {
			if *room.to, err = replay.ParseRoom(room.name, room.text); err != nil {
				return t, asReplayFlag(err)
			}
		}
	}
	for name, need := range map[string]bool{"disk-admission": t.Disk.Any(), "disk-rate": t.Disk.Any(), "host-rate": t.Host.Any(), "token-bytes": t.Any(), "prefill-rate": t.Any()} {
		of, _, _ := strings.Cut(name, "-")
		if of != "host" && of != "disk" {
			of = "host or --disk"
		}
		if cmd.Flags().Changed(name) && !need {
			return t, fmt.Errorf("--%s: is for --%s", name, of)
		}
	}
	if t.Admission, err = parseAdmission(f.admission); err != nil {
		return t, err
	}
	if f.prefill > 0 { // else there is no clock
		for _, rate := range [...]struct {
			room replay.Room
			text *string
			is   string
		}{{t.Host, &f.hostRate, defaultHostRate}, {t.Disk, &f.diskRate, defaultDiskRate}} {
			if rate.room.Any() && *rate.text == "" {
				*rate.text = rate.is
			}
		}
	}
	var host, disk int64
	for _, bytes := range [...]struct {
		name, text, examples string
		to                   *int64
	}{{"token-bytes", f.tokenBytes, "128KiB", &t.TokenBytes}, {"host-rate", f.hostRate, defaultHostRate, &host}, {"disk-rate", f.diskRate, defaultDiskRate, &disk}} {
		if *bytes.to, err = parseBytes(bytes.name, bytes.text, bytes.examples, 1); err != nil {
			return t, err
		}
	}
	t.Prefill, t.HostRate, t.DiskRate = f.prefill, float64(host), float64(disk)
	return t, nil
}

// describeTiers says what is below the cache.
func describeTiers(t replay.Tiers) string {
	var out []string
	if t.Host.Any() {
		out = append(out, "host memory "+describeRoom(t.Host))
	}
	if t.Disk.Any() {
		what := "which writes all"
		if t.Admission == disk.SecondUse {
			what = "which, when it is full, writes what comes a second time"
		}
		out = append(out, fmt.Sprintf("disk %s, %s", describeRoom(t.Disk), what))
	}
	return strings.Join(out, "; ")
}

func describeRoom(r replay.Room) string {
	if times, ok := strings.CutSuffix(r.String(), "x"); ok {
		return "of " + times + " times the capacity"
	}
	return "of " + count(r.Blocks(0), "block")
}

// describeRates says how fast computing and loading are.
func describeRates(t replay.Tiers) string {
	out := []string{fmt.Sprintf("computing %s tokens/s", grouped(int(t.Prefill)))}
	for _, r := range [...]struct {
		from string
		rate float64
	}{{"host", t.HostRate}, {"disk", t.DiskRate}} {
		if r.rate > 0 {
			out = append(out, fmt.Sprintf("loading %s tokens/s from %s", grouped(int(r.rate/float64(t.TokenBytes))), r.from))
		}
	}
	return strings.Join(out, ", ")
}

// replayTiersRow is what --json prints with tiers.
type replayTiersRow struct {
	TokenBytes int64           `json:"token_bytes"`
	Admission  string          `json:"disk_admission,omitempty"`
	Alone      int             `json:"hits_alone"`  // of the cache without tiers
	Device     int             `json:"hits_device"` // of hits, those that the cache had
	Tiers      []replayTierRow `json:"tiers"`
	*timesRow
}

// replayTierRow is what was done with a tier.
type replayTierRow struct {
	Name        string `json:"name"`
	Blocks      int    `json:"blocks"` // that it has room for
	Hits        int    `json:"hits"`
	LoadedBytes int64  `json:"loaded_bytes"`
	StoredBytes int64  `json:"stored_bytes"`
	Evicted     int64  `json:"evicted"` // blocks
	Refused     int64  `json:"refused"` // blocks, by admission
}

// timesRow is the time to the first token, in seconds, and the rates that it follows from.
type timesRow struct {
	Prefill   float64          `json:"prefill_rate"`        // tokens a second
	HostRate  float64          `json:"host_rate,omitempty"` // bytes a second
	DiskRate  float64          `json:"disk_rate,omitempty"`
	With      timeRow          `json:"first_token_seconds"`
	Alone     timeRow          `json:"first_token_seconds_alone"` // without tiers
	Decisions map[string]int64 `json:"decisions"`                 // of the planner, one for each prompt of which tiers had something
}

type timeRow struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
}

func newReplayTiersRow(t replay.Tiers, blockTokens int, run replay.Run) *replayTiersRow {
	b := run.Below
	if b == nil {
		return nil
	}
	row := &replayTiersRow{TokenBytes: t.TokenBytes, Alone: b.Alone, Device: b.Device}
	if t.Disk.Any() {
		row.Admission = string(cmp.Or(t.Admission, disk.All))
	}
	block := int64(blockTokens) * t.TokenBytes
	for _, u := range b.Tiers {
		row.Tiers = append(row.Tiers, replayTierRow{u.Name, u.Blocks, u.Hits, u.Loaded * block, u.Stored * block, u.Evicted, u.Refused})
	}
	if t.Prefill > 0 {
		row.timesRow = &timesRow{Prefill: t.Prefill, HostRate: t.HostRate, DiskRate: t.DiskRate, With: timeRow(b.With), Alone: timeRow(b.Without), Decisions: map[string]int64{}}
		for choice, n := range b.Planner.Decisions {
			if n > 0 {
				row.Decisions[planner.Choice(choice).String()] = n
			}
		}
	}
	return row
}
