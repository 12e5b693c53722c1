package tiertest

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/ferrumkv/ferrumkv/internal/testutil/testsize"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

func TestMain(m *testing.M) {
	testsize.Histories(30)
	for name, v := range map[string]string{"rapid.nofailfile": "true", "rapid.shrinktime": "0s"} {
		if err := flag.Set(name, v); err != nil { // tiers fail here on purpose
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// A tier in which nothing is wrong passes.
func TestPlain(t *testing.T) {
	Run(t, func(_ *testing.T, o Options) tier.Tier { return openPlain(o, "") })
}

// defects are mistakes, and a check that must see each of them.
var defects = []struct{ defect, seenBy string }{
	{"changes its Info", "info"},
	{"skips gaps", "prefix"},
	{"skips gaps", "history"},
	{"writes behind the payload", "prefix"},
	{"writes beyond the list", "prefix"},
	{"loses the sum", "prefix"},
	{"loses the sum", "history"},
	{"loses the sum", "lasting"},
	{"takes any length", "lengths"},
	{"takes any length", "history"},
	{"writes again what is there", "put"},
	{"keeps the caller's slice", "copies"},
	{"keeps the caller's slice", "concurrent"},
	{"keeps the zero key", "declined"},
	{"keeps empty payloads", "declined"},
	{"keeps what is too large", "declined"},
	{"finds what failed to be stored", "declined"},
	{"finds what failed to be stored", "history"},
	{"stops at a block that it declines", "declined"},
	{"deletes the first key alone", "delete"},
	{"loses count of what it deletes", "delete"},
	{"loses count of what it deletes", "history"},
	{"does not clear all", "clear"},
	{"clears others", "clear"},
	{"clears others", "lasting"},
	{"clears the first blocks alone", "clear"},
	{"clears the first blocks alone", "history"},
	{"counts hits as queries", "stats"},
	{"counts too many as never used", "room"},
	{"exceeds its capacity", "room"},
	{"exceeds its capacity", "concurrent"},
	{"exceeds its capacity, and denies it", "room"},
	{"exceeds its capacity, and denies it", "history"},
	{"says more in Has than Get finds", "room"},
	{"says more in Has than Get finds", "history"},
	{"returns another block", "order"},
	{"returns another block", "concurrent"},
	{"returns another block", "history"},
	{"gives up parents first", "order"},
	{"gives up anything for the last block", "order"},
	{"knows no contexts", "contexts"},
	{"begins before it looks at the context", "contexts"},
	{"works after Close", "closed"},
	{"works after Close", "closing"},
	{"fails at a second Close", "closed"},
	{"fails at a second Close", "closing"},
	{"forgets at Close", "lasting"},
	{"finds again what was deleted", "lasting"},
	{"leaks a goroutine", "leaks"},
}

func TestDefectsAreSeen(t *testing.T) {
	for _, d := range defects {
		t.Run(d.defect+"/"+d.seenBy, func(t *testing.T) {
			if testing.Short() && d.seenBy == "history" {
				t.Skip("few histories may miss it")
			}
			if race.Enabled && d.seenBy == "concurrent" && d.defect == "keeps the caller's slice" {
				t.Skip("it is a race itself")
			}
			text := failure(t, d.seenBy, d.defect)
			for tries := 1; text == "" && d.seenBy == "history" && tries < 20; tries++ { // a hundred histories at a time
				text = failure(t, d.seenBy, d.defect)
			}
			require.NotEmpty(t, text, "the check %s passes", d.seenBy)
			require.NotContains(t, text, "flaky")
		})
	}
}

// failure is what a check says of a defect; "" when it passes.
func failure(t *testing.T, name, defect string) string {
	rec := &recorder{name: t.Name()}
	var wg sync.WaitGroup
	wg.Go(func() {
		r := &rig{t: rec, dir: t.TempDir, open: func(o Options) tier.Tier { return openPlain(o, defect) }}
		defer r.close()
		defer func() {
			if v := recover(); v != nil {
				rec.Errorf("panic: %v", v)
			}
		}()
		for _, c := range checks {
			if c.name == name {
				c.run(r)
				return
			}
		}
		panic("no such check: " + name)
	})
	wg.Wait()
	return strings.Join(rec.failures, "\n")
}

// recorder is a test that remembers how it failed. Its goroutine ends, as that of a test does.
type recorder struct {
	testing.T
	name     string
	failures []string
}

func (r *recorder) Name() string              { return r.name }
func (r *recorder) Helper()                   {}
func (r *recorder) Log(...any)                {}
func (r *recorder) Logf(string, ...any)       {}
func (r *recorder) Failed() bool              { return len(r.failures) > 0 }
func (r *recorder) Fail()                     { r.failures = append(r.failures, "failed") }
func (r *recorder) Errorf(f string, a ...any) { r.failures = append(r.failures, fmt.Sprintf(f, a...)) }
func (r *recorder) Error(a ...any)            { r.Errorf("%s", fmt.Sprint(a...)) }
func (r *recorder) FailNow() {
	r.Fail()
	r.T.FailNow() // ends the goroutine
}
func (r *recorder) Fatalf(f string, a ...any) {
	r.Errorf(f, a...)
	r.FailNow()
}
func (r *recorder) Fatal(a ...any) {
	r.Error(a...)
	r.FailNow()
}
