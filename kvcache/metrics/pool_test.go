package metrics_test

import (
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
)

// text is what is exposed of stats.
func text(t testing.TB, s kvcache.Stats) string { return write(t, metrics.Of(metrics.Pool(), s)...) }

// below is the numbers of a pool with a tier and a group, all zero.
func below() kvcache.Stats {
	return kvcache.Stats{
		Groups: []kvcache.GroupStats{{Kind: group.Full}},
		Tiers:  []kvcache.TierStats{{Info: tier.Info{Name: "disk", Medium: tier.Disk}}},
	}
}

var (
	name    = regexp.MustCompile(`^(vllm|ferrumkv):[a-z][a-z_]*[a-z]$`)
	label   = regexp.MustCompile(`^[a-z][a-z_]*$`)
	reserve = regexp.MustCompile(`_(total|sum|count|bucket|info_|created)$`)
)

// Names are valid and say their units, helps are sentences, and samples have a value for each label.
func TestTableOfPool(t *testing.T) {
	for _, s := range []kvcache.Stats{{}, below()} {
		seen := map[string]bool{}
		for _, f := range metrics.Of(metrics.Pool(), s) {
			require.Regexp(t, name, f.Name)
			require.NotRegexp(t, reserve, f.Name)
			require.False(t, seen[f.Name], f.Name)
			seen[f.Name] = true
			require.True(t, strings.HasSuffix(f.Help, "."), f.Name)
			require.NotEmpty(t, f.Unit, f.Name)
			for _, unit := range []string{"bytes", "seconds"} {
				require.Equal(t, strings.HasSuffix(f.Name, "_"+unit), f.Unit == unit, f.Name)
			}
			for _, l := range f.Labels {
				require.Regexp(t, label, l)
			}
			for _, sample := range f.Samples {
				require.Len(t, sample.Labels, len(f.Labels), f.Name)
			}
			if len(s.Tiers) > 0 {
				require.NotEmpty(t, f.Samples, f.Name)
			}
		}
		_, err := parse(text(t, s))
		require.NoError(t, err)
	}
}

// A table that somebody changed is nobody else's.
func TestTablesAreTheCallers(t *testing.T) {
	was := text(t, below())
	for _, m := range metrics.Pool() {
		for i := range m.Labels {
			m.Labels[i] = "changed"
		}
	}
	require.Equal(t, was, text(t, below()))
}

func TestUsageIsOfAllBlocks(t *testing.T) {
	s := kvcache.Stats{Blocks: 8, Free: 1, Cached: 5, Held: 2}
	require.Contains(t, text(t, s), "\nvllm:kv_cache_usage_perc 0.25\n")
}

// unread are the fields of Stats that no metric has, and why.
var unread = map[string]string{
	"Prefix.Blocks":            "is cached + held",
	"Prefix.Partial":           "is the part of that sum whose label found is part",
	"Prefix.Misses[0]":         "a lookup that found everything missed nothing",
	"Prefix.PartialReasons[0]": "likewise",
	"Moves.Planner.Last":       "is one decision, for people",
}

// Every number of Stats is read by some metric, or listed in unread.
func TestMetricsReadEveryField(t *testing.T) {
	met := map[string]bool{}
	base := below()
	base.Blocks = 1 << 20 // else what part is held would not be told from how many
	was := text(t, base)
	visit(reflect.ValueOf(&base).Elem(), "", func(path string, field reflect.Value) {
		is := ""
		for p := range unread {
			if path == p || strings.HasPrefix(path, p+".") {
				is = p
				met[p] = true
			}
		}
		old := reflect.New(field.Type()).Elem()
		old.Set(field)
		switch {
		case field.Kind() == reflect.Bool:
			field.SetBool(true)
		case field.Kind() == reflect.Uint8:
			field.SetUint(1)
		case field.CanInt():
			field.SetInt(977)
		case field.CanUint():
			field.SetUint(977)
		case field.CanFloat():
			field.SetFloat(977)
		default:
			t.Fatalf("%s: a %s", path, field.Type())
		}
		now := text(t, base)
		field.Set(old)
		require.Equal(t, is != "", was == now, "%s: a metric reads it, or unread says why none does", path)
	})
	require.Len(t, met, len(unread), "unread has fields that do not exist")
}

// visit calls do for every number and flag below v.
func visit(v reflect.Value, path string, do func(path string, field reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			visit(v.Field(i), strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), do)
		}
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			visit(v.Index(i), fmt.Sprintf("%s[%d]", path, i), do)
		}
	case reflect.String:
	default:
		do(path, v)
	}
}

// BlockTokens is what Config says.
func TestBlockTokens(t *testing.T) {
	for _, layout := range []config.Layout{kvcache.Paged, kvcache.Contiguous} {
		r := newRig(t, kvcache.Memory{Layout: layout, Capacity: 64, MaxSeqs: 2})
		s, err := r.kv.Pool.Stats()
		require.NoError(t, err)
		want := config.DefaultBlockSize
		if layout == kvcache.Contiguous {
			want = 64
		}
		require.Equal(t, want, s.BlockTokens)
		require.Contains(t, text(t, s), fmt.Sprintf("vllm:cache_config_info{block_size=\"%d\",num_gpu_blocks=\"%d\"} 1\n", want, s.Blocks))
	}
}

// vLLM counts all tokens of a prompt as queried, and those that it does not compute as hits.
func TestQueriesAreWholePrompts(t *testing.T) {
	r := newRig(t, kvcache.Memory{Layout: kvcache.Paged, BlockSize: 4, Blocks: 32, Capacity: 64, MaxSeqs: 2})
	prompt := make([]uint32, 13)
	require.NoError(t, r.open(prompt, kvcache.OpenOptions{}).Release())
	require.NoError(t, r.open(prompt, kvcache.OpenOptions{}).Release())
	require.NoError(t, r.open(prompt[:1], kvcache.OpenOptions{}).Release())
	seq, _, err := r.kv.Pool.Open(nil, kvcache.OpenOptions{}) // no lookup
	require.NoError(t, err)
	require.NoError(t, seq.Release())
	s, err := r.kv.Pool.Stats()
	require.NoError(t, err)
	p, err := parse(text(t, s))
	require.NoError(t, err)
	require.Equal(t, 13+13+1.0, p.values["vllm:prefix_cache_queries_total"])
	require.Equal(t, 12.0, p.values["vllm:prefix_cache_hits_total"])
}

// Scrapes that meet Close have numbers or ErrClosed, and steps go on beside them.
func TestScrapesMeetClose(t *testing.T) {
	for range 20 {
		low, err := memory.Open(memory.Options{Bytes: 1 << 14})
		require.NoError(t, err)
		r := newRig(t, kvcache.Memory{BlockSize: 4, Blocks: 32, Capacity: 64, MaxSeqs: 2}, low)
		var scrapers sync.WaitGroup
		table := metrics.Pool()
		for range 3 {
			scrapers.Go(func() {
				for {
					s, err := r.kv.Pool.Stats()
					if err != nil {
						assert.ErrorIs(t, err, kvcache.ErrClosed)
						return
					}
					assert.NoError(t, metrics.Write(io.Discard, metrics.Of(table, s)...))
				}
			})
		}
		for i := range 5 {
			prompt := slices.Repeat([]uint32{uint32(i)}, 20)
			require.NoError(t, r.open(prompt, kvcache.OpenOptions{}).Release())
		}
		require.NoError(t, r.kv.Pool.Close())
		scrapers.Wait()
		require.NoError(t, low.Close())
	}
}

func BenchmarkWrite(b *testing.B) {
	table, s := metrics.Pool(), below()
	s.Tiers = append(s.Tiers, kvcache.TierStats{Info: tier.Info{Name: "memory"}})
	b.ReportAllocs()
	for b.Loop() {
		if err := metrics.Write(io.Discard, metrics.Of(table, s)...); err != nil {
			b.Fatal(err)
		}
	}
}
