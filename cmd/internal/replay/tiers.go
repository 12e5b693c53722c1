package replay

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
)

// Tiers are what is below the cache. The zero value is nothing.
type Tiers struct {
	Host, Disk Room
	Admission  disk.Admission // of the disk
	TokenBytes int64          // of a token's keys and values
	// Prefill is the tokens of a prompt that the runner computes a second. 0: time is not counted, and all that tiers have is loaded.
	Prefill            float64
	HostRate, DiskRate float64 // bytes a second that each loads; needed with Prefill
}

// Any reports whether there are tiers.
func (t Tiers) Any() bool { return t.Host.Any() || t.Disk.Any() }

// Check reports what is out of range or missing, as an ErrSetting.
func (t Tiers) Check() error {
	if !t.Any() {
		return nil
	}
	if t.TokenBytes < 1 || t.TokenBytes > math.MaxInt32 {
		return ErrSetting{"token-bytes", strconv.FormatInt(t.TokenBytes, 10), fmt.Sprintf("accepts 1 to %d", math.MaxInt32)}
	}
	for _, r := range [...]struct {
		name   string
		rate   float64
		needed bool
	}{
		{"prefill-rate", t.Prefill, false},
		{"host-rate", t.HostRate, t.Prefill > 0 && t.Host.Any()},
		{"disk-rate", t.DiskRate, t.Prefill > 0 && t.Disk.Any()},
	} {
		switch {
		case r.rate < 0 || math.IsNaN(r.rate) || math.IsInf(r.rate, 0):
			return ErrSetting{r.name, fmt.Sprint(r.rate), "accepts numbers above 0"}
		case r.needed && r.rate == 0:
			return ErrSetting{r.name, "0", "is needed to know how long loading takes"}
		case r.rate > 0 && t.Prefill == 0:
			return ErrSetting{r.name, fmt.Sprint(r.rate), "is for the time to the first token: give the rate of computing, too"}
		}
	}
	return nil
}

// TierUse is what a replay did with a tier. Blocks are those of the trace.
type TierUse struct {
	Name    string
	Blocks  int   // that it has room for
	Hits    int   // references that were found there and loaded
	Loaded  int64 // blocks that were read, probes included
	Stored  int64 // blocks that were written
	Evicted int64 // given up for others
	Refused int64 // not written, by admission
}

// Below is what a replay did below the cache.
type Below struct {
	Alone         int // hits of the same cache without tiers
	Device        int // of Run.Hits those that were in the cache; the others are the tiers'
	Tiers         []TierUse
	With, Without Times // to the first token, with Tiers.Prefill
	Planner       planner.Stats
}

// payload is the bytes of a block as tiers have it here: its number, and nothing.
const payload = 64

// open makes the tiers below a cache of that many blocks, the fastest first.
func (t Tiers) open(cache int, now func() time.Time) (tiers []tier.Tier, uses []TierUse, err error) {
	defer func() {
		if err != nil {
			for _, t := range tiers {
				_ = t.Close()
			}
		}
	}()
	if t.Host.Any() {
		n := t.Host.Blocks(cache)
		m, err := memory.Open(memory.Options{Name: "host", Bytes: int64(n) * payload})
		if err != nil {
			return tiers, nil, err
		}
		tiers, uses = append(tiers, m), append(uses, TierUse{Name: "host", Blocks: n})
	}
	if t.Disk.Any() {
		n := t.Disk.Blocks(cache)
		d, err := disk.Simulation{Blocks: n, Payload: payload, Admission: t.Admission, Now: now}.Open()
		if err != nil {
			return tiers, nil, err
		}
		tiers, uses = append(tiers, d), append(uses, TierUse{Name: "disk", Blocks: n})
	}
	return tiers, uses, nil
}

// rates are the bytes a second of each tier.
func (t Tiers) rates() (rates []float64) {
	if t.Host.Any() {
		rates = append(rates, t.HostRate)
	}
	if t.Disk.Any() {
		rates = append(rates, t.DiskRate)
	}
	return rates
}
