package extremes

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv"
	"github.com/ferrumkv/ferrumkv/backend"
	"github.com/ferrumkv/ferrumkv/backend/cpu"
	"github.com/ferrumkv/ferrumkv/backend/quant"
	"github.com/ferrumkv/ferrumkv/kvcache"
	"github.com/ferrumkv/ferrumkv/kvcache/block"
	"github.com/ferrumkv/ferrumkv/kvcache/config"
	"github.com/ferrumkv/ferrumkv/kvcache/evict"
	"github.com/ferrumkv/ferrumkv/kvcache/evictor"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/host"
	"github.com/ferrumkv/ferrumkv/kvcache/metrics"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	kvquant "github.com/ferrumkv/ferrumkv/kvcache/quant"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
	"github.com/ferrumkv/ferrumkv/kvcache/states"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/memory"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/planner"
	"github.com/ferrumkv/ferrumkv/kvevents"
	"github.com/ferrumkv/ferrumkv/kvevents/index"
	"github.com/ferrumkv/ferrumkv/kvevents/pubsub"
	"github.com/ferrumkv/ferrumkv/schedule"
	"github.com/stretchr/testify/require"
)

type buffer = *cpu.Buffer

// functions are those of the packages, of a type where they have parameters of types.
var functions = map[string]any{
	"ferrumkv.Open":                    ferrumkv.Open,
	"backend.AllocFrom":                backend.AllocFrom[buffer, float32],
	"backend.BytesOf":                  backend.BytesOf[float32],
	"backend.Capture":                  backend.Capture[buffer],
	"backend.CheckBlocks":              backend.CheckBlocks,
	"backend.CheckDistinct":            backend.CheckDistinct,
	"backend.CheckPlanes":              backend.CheckPlanes[buffer],
	"backend.Default":                  backend.Default,
	"backend.Dense":                    backend.Dense[buffer],
	"backend.Download":                 backend.Download[buffer, float32],
	"backend.Erase":                    backend.Erase[buffer],
	"backend.HostAccessOf":             backend.HostAccessOf[buffer],
	"backend.HostAlloc":                backend.HostAlloc[buffer],
	"backend.HostHandle":               backend.HostHandle[float32],
	"backend.List":                     backend.List,
	"backend.Mul":                      backend.Mul,
	"backend.NewBlockSet":              backend.NewBlockSet[buffer],
	"backend.Open":                     backend.Open,
	"backend.ParseDType":               backend.ParseDType,
	"backend.Prepare":                  backend.Prepare[buffer],
	"backend.Some":                     backend.Some[buffer],
	"backend.StorageTypes":             backend.StorageTypes,
	"backend.Typed":                    backend.Typed[buffer],
	"backend.Unwrap":                   backend.Unwrap[buffer],
	"backend.Upload":                   backend.Upload[buffer, float32],
	"backend.Wrap":                     backend.Wrap[buffer],
	"backend/cpu.Open":                 cpu.Open,
	"backend/quant.AffineOf":           quant.AffineOf,
	"backend/quant.BF16":               quant.BF16,
	"backend/quant.BoundFP8":           quant.BoundFP8,
	"backend/quant.BoundInt8":          quant.BoundInt8,
	"backend/quant.BoundMX":            quant.BoundMX,
	"backend/quant.BoundNV":            quant.BoundNV,
	"backend/quant.BoundRow":           quant.BoundRow,
	"backend/quant.DecodeChannels":     quant.DecodeChannels,
	"backend/quant.DecodeFP8":          quant.DecodeFP8,
	"backend/quant.DecodeInt8":         quant.DecodeInt8,
	"backend/quant.DecodeMX":           quant.DecodeMX,
	"backend/quant.DecodeNV":           quant.DecodeNV,
	"backend/quant.DecodeRow":          quant.DecodeRow,
	"backend/quant.EncodeChannels":     quant.EncodeChannels,
	"backend/quant.EncodeFP8":          quant.EncodeFP8,
	"backend/quant.EncodeInt8":         quant.EncodeInt8,
	"backend/quant.EncodeMX":           quant.EncodeMX,
	"backend/quant.EncodeNV":           quant.EncodeNV,
	"backend/quant.EncodeRow":          quant.EncodeRow,
	"backend/quant.Exponent":           quant.Exponent,
	"backend/quant.ExponentMX":         quant.ExponentMX,
	"backend/quant.F16":                quant.F16,
	"backend/quant.FP8":                quant.FP8,
	"backend/quant.FactorNV":           quant.FactorNV,
	"backend/quant.FromBF16":           quant.FromBF16,
	"backend/quant.FromF16":            quant.FromF16,
	"backend/quant.FromFP8":            quant.FromFP8,
	"backend/quant.Hadamard":           quant.Hadamard,
	"backend/quant.HadamardSize":       quant.HadamardSize,
	"backend/quant.MaxFP8":             quant.MaxFP8,
	"backend/quant.Pack":               quant.Pack,
	"backend/quant.PackedLen":          quant.PackedLen,
	"backend/quant.PutExponent":        quant.PutExponent,
	"backend/quant.Round":              quant.Round,
	"backend/quant.Saturate":           quant.Saturate,
	"backend/quant.ScaleInt8":          quant.ScaleInt8,
	"backend/quant.ScaleMX":            quant.ScaleMX,
	"backend/quant.StepNV":             quant.StepNV,
	"backend/quant.Unpack":             quant.Unpack,
	"backend/quant.WordOf":             quant.WordOf,
	"kvcache.Dense":                    kvcache.Dense[buffer],
	"kvcache.HostTier":                 kvcache.HostTier,
	"kvcache.NewPool":                  kvcache.NewPool[buffer],
	"kvcache.NewStandalone":            kvcache.NewStandalone[buffer],
	"kvcache.ParseConfig":              kvcache.ParseConfig,
	"kvcache/block.New":                block.New,
	"kvcache/config.Parse":             config.Parse,
	"kvcache/config.ParseBytes":        config.ParseBytes,
	"kvcache/config.ParseEnvironment":  config.ParseEnvironment,
	"kvcache/config.ParseKVType":       config.ParseKVType,
	"kvcache/evict.Divide":             evict.Divide,
	"kvcache/evict.Select":             evict.Select,
	"kvcache/evictor.New":              evictor.New[buffer],
	"kvcache/group.New":                group.New,
	"kvcache/host.NewBlockStore":       host.NewBlockStore[float32],
	"kvcache/host.NewCachedKvState":    host.NewCachedKvState[float32],
	"kvcache/host.NewDense":            host.NewDense[float32],
	"kvcache/host.NewPagedKvCache":     host.NewPagedKvCache[float32],
	"kvcache/host.NewPagedLayers":      host.NewPagedLayers[float32],
	"kvcache/host.NewPrefixKvCache":    host.NewPrefixKvCache[float32],
	"kvcache/host.PagedBlockSize":      host.PagedBlockSize,
	"kvcache/metrics.NewHistogram":     metrics.NewHistogram,
	"kvcache/metrics.Of":               metrics.Of[kvcache.Stats],
	"kvcache/metrics.Pool":             metrics.Pool,
	"kvcache/metrics.Write":            metrics.Write,
	"kvcache/prefix.ItemKeys":          prefix.ItemKeys,
	"kvcache/prefix.New":               prefix.New,
	"kvcache/prefix.ParsePolicy":       prefix.ParsePolicy,
	"kvcache/prefix.PolicyNames":       prefix.PolicyNames,
	"kvcache/prefix.SpanKeys":          prefix.SpanKeys,
	"kvcache/quant.New":                kvquant.New,
	"kvcache/snapshot.Compare":         snapshot.Compare,
	"kvcache/snapshot.NewReader":       snapshot.NewReader,
	"kvcache/snapshot.NewWriter":       snapshot.NewWriter,
	"kvcache/snapshot.WriteFile":       snapshot.WriteFile,
	"kvcache/states.Look":              states.Look,
	"kvcache/states.Open":              states.Open,
	"kvcache/tier.NewMover":            tier.NewMover,
	"kvcache/tier/disk.Measure":        disk.Measure,
	"kvcache/tier/disk.Open":           disk.Open,
	"kvcache/tier/disk.Path":           disk.Path,
	"kvcache/tier/disk.Prepare":        disk.Prepare,
	"kvcache/tier/memory.DefaultBytes": memory.DefaultBytes,
	"kvcache/tier/memory.Open":         memory.Open,
	"kvcache/tier/planner.New":         planner.New,
	"kvevents.AppendSGLang":            kvevents.AppendSGLang,
	"kvevents.AppendVLLM":              kvevents.AppendVLLM,
	"kvevents.HashOf":                  kvevents.HashOf,
	"kvevents.VLLMRoot":                kvevents.VLLMRoot,
	"kvevents/index.New":               index.New,
	"kvevents/pubsub.ParseTopic":       pubsub.ParseTopic,
	"kvevents/pubsub.Subscribe":        pubsub.Subscribe,
	"kvevents/pubsub.Topic":            pubsub.Topic,
	"schedule.Metrics":                 schedule.Metrics,
	"schedule.New":                     schedule.New[buffer],
}

func of[T any]() reflect.Type { return reflect.TypeFor[T]() }

// types are those that have methods.
var types = []reflect.Type{
	of[ferrumkv.Cache](), of[ferrumkv.Step](),
	of[backend.DType](), of[backend.Pairing](), of[backend.RoPEScaling](), of[backend.AnyBuffer](), of[backend.Caps](), of[backend.Code](),
	of[backend.RoPE](), of[backend.Scale](), of[backend.Scope](), of[backend.ErrArgument](), of[backend.ErrCapacity](), of[backend.ErrCapture](),
	of[backend.ErrConfig](), of[backend.ErrNonFinite](), of[backend.ErrOutOfMemory](), of[backend.ErrUnavailable](), of[backend.ErrUnsupported](),
	of[cpu.Backend](), of[cpu.Buffer](), of[quant.Affine](), of[quant.Word](),
	of[kvcache.Batch[buffer]](), of[kvcache.Pool[buffer]](), of[kvcache.Sequence[buffer]](), of[kvcache.Standalone[buffer]](),
	of[kvcache.ErrDamaged](), of[kvcache.ErrGone](), of[kvcache.ErrPrompt](), of[kvcache.ErrResume](), of[kvcache.ErrSpan](), of[kvcache.ErrStep](), of[kvcache.ErrView](),
	of[block.BlockAllocator](), of[block.Claim](), of[block.ErrBlock](), of[block.ErrOutOfBlocks](), of[block.ErrRange](),
	of[config.Config](), of[config.Layout](), of[config.Memory](), of[config.Model](), of[config.Part](), of[config.Tiers](), of[config.Source](), of[config.ErrPoolSize](),
	of[evict.H2O](), of[evict.PyramidKV](), of[evict.Recency](), of[evict.SlidingWindow](), of[evict.SnapKV](), of[evict.ErrPolicy](),
	of[evictor.Evictor[buffer]](), of[group.Cache](), of[group.Kind](), of[group.Part](), of[group.Rule](),
	of[host.BlockStore[float32]](), of[host.CachedKvState[float32]](), of[host.Dense[float32]](), of[host.PagedKvCache[float32]](), of[host.PagedLayers[float32]](), of[host.PrefixKvCache[float32]](), of[host.ErrIndex](), of[host.ErrOversize](),
	of[prefix.Lease](), of[prefix.Policy](), of[prefix.Tree](), of[prefix.EventKind](), of[prefix.Fingerprint](), of[prefix.Key](), of[prefix.Match](), of[prefix.MissReason](),
	of[prefix.Part](), of[prefix.Query](), of[prefix.RetentionHint](), of[prefix.Root](), of[prefix.Scope](), of[prefix.ErrArgument](), of[prefix.ErrInUse](), of[prefix.ErrPinned](),
	of[metrics.Histogram](), of[metrics.Distribution](), of[metrics.Type](), of[metrics.ErrFamily](),
	of[schedule.Scheduler[buffer]](), of[schedule.Answer](), of[schedule.Reason](), of[schedule.ErrQueueFull](),
	of[kvquant.CacheManager](), of[kvquant.Layer](), of[kvquant.ErrNotHeld](),
	of[snapshot.Plane](), of[snapshot.Reader](), of[snapshot.Run](), of[snapshot.Strip](), of[snapshot.Writer](), of[snapshot.Kind](), of[snapshot.Role](),
	of[snapshot.ErrCorrupt](), of[snapshot.ErrMismatch](), of[zstd.Compressor](),
	of[states.Store](), of[states.ID](), of[states.ErrArgument](), of[states.ErrConfig](), of[states.ErrCopies](), of[states.ErrDamaged](), of[states.ErrFull](), of[states.ErrInUse](), of[states.ErrMiss](),
	of[tier.Mover](), of[tier.Block](), of[tier.ErrBusy](), of[tier.ErrCorrupt](), of[tier.ErrClosed](), of[tier.ErrConfig](), of[tier.ErrFailed](), of[tier.ErrHung](), of[tier.ErrPanic](), of[tier.ErrRefused](),
	of[disk.Tier](), of[disk.Simulation](), of[disk.ErrGone](), of[disk.ErrInUse](), of[memory.Tier](), of[planner.Planner](), of[planner.Choice](),
	of[kvevents.Decoder](), of[kvevents.Digest](), of[kvevents.Form](), of[kvevents.ErrPayload](), of[index.Index](), of[index.ErrBlockSize](), of[index.ErrConfig](), of[index.ErrFull](),
	of[pubsub.Publisher](), of[pubsub.Subscriber](), of[pubsub.Reset](), of[pubsub.ErrArgument](), of[pubsub.ErrFull](), of[pubsub.ErrWaiting](),
}

// sentinels are the exported errors that are variables.
var sentinels = map[string]error{
	"backend.ErrClosed": backend.ErrClosed, "backend.ErrFreed": backend.ErrFreed, "backend.ErrLost": backend.ErrLost, "backend.ErrOtherDevice": backend.ErrOtherDevice,
	"kvcache.ErrBusy": kvcache.ErrBusy, "kvcache.ErrClosed": kvcache.ErrClosed, "kvcache.ErrOtherPool": kvcache.ErrOtherPool, "kvcache.ErrReleased": kvcache.ErrReleased,
	"kvcache.ErrSuspended": kvcache.ErrSuspended, "kvcache/block.ErrCorrupt": block.ErrCorrupt, "kvcache/block.ErrDoubleFree": block.ErrDoubleFree,
	"kvcache/block.ErrNotCached": block.ErrNotCached, "kvcache/block.ErrNotHeld": block.ErrNotHeld, "kvcache/block.ErrOwners": block.ErrOwners,
	"kvcache/block.ErrStale": block.ErrStale, "kvcache/block.ErrUnknown": block.ErrUnknown, "kvcache/prefix.ErrCorrupt": prefix.ErrCorrupt,
	"kvcache/prefix.ErrDetached": prefix.ErrDetached, "kvcache/prefix.ErrLeaseEnded": prefix.ErrLeaseEnded, "kvcache/states.ErrClosed": states.ErrClosed,
	"kvevents/pubsub.ErrClosed": pubsub.ErrClosed, "schedule.ErrDraining": schedule.ErrDraining, "schedule.ErrRunning": schedule.ErrRunning,
}

// without is what the test leaves out.
var without = map[string]string{
	"backend/backendtest": "for tests", "backend/backendtest/gputest": "for tests", "kvcache/tier/tiertest": "for tests",
	"backend/cuda": "needs a device", "backend/cuda/driver": "needs a device", "backend/metal": "needs a device", "backend/metal/mtl": "needs a device",
	"kvevents/pubsub.Listen": "takes ports that others may have",
	"backend.Register":       "for the init of a driver: a duplicate name is a mistake, and panics",
}

// short is a type's name with its package, as in docs/api.txt: an alias of an internal package's type has the
// package that exports it.
func short(t reflect.Type) string {
	name, _, _ := strings.Cut(t.Name(), "[")
	pkg, _, _ := strings.Cut(t.PkgPath(), "/internal/")
	return strings.TrimPrefix(strings.TrimPrefix(pkg, "github.com/ferrumkv/ferrumkv/"), "github.com/ferrumkv/") + "." + name
}

// Everything that docs/api.txt lists is called, and every exported error is known.
func TestNothingIsLeftOut(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.txt")
	require.NoError(t, err)
	known := map[string]bool{}
	for name := range functions {
		known[name] = true
	}
	for name := range sentinels {
		known[name] = true
	}
	for _, of := range types {
		for m := range reflect.PointerTo(of).NumMethod() {
			known[short(of)+"."+reflect.PointerTo(of).Method(m).Name] = true
		}
	}
	line := regexp.MustCompile(`(?m)^pkg (\S+)(?: \([^)]*\))?, (?:func (\w+)|method \(\*?(\w+)(?:\[\w+\])?\) (\w+)|var (Err\w+) error)`)
	n := 0
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		name := m[1] + "." + m[2] + m[3] + m[5]
		if m[4] != "" {
			name += "." + m[4]
		}
		if without[m[1]] == "" && without[name] == "" {
			n++
			require.True(t, known[name], "%s is exported: call it with extremes, too", name)
		}
	}
	require.Greater(t, n, 500)
}
