package extremes

import (
	"regexp"
	"strings"

	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
)

// exceptions are calls that are left out: of functions with a prefix of their name, with arguments that match.
var exceptions = []struct {
	name, args string
	why        string
}{
	// Wrong programs, which panic in Go's own packages, too.
	{"backend.StorageTypes", `^nil`, "calls a function that is nil"},
	{"kvcache/group.Cache.Leased", `nil`, "calls a function that is nil"},
	{"kvcache/prefix.Tree.Leased", `nil`, "calls a function that is nil"},
	{"kvcache/snapshot.WriteFile", `nil$`, "calls a function that is nil"},

	// Calls that take as much memory as they are asked for, as documented; more than the machine has is refused where memory
	// is counted in bytes.
	{"kvcache/block.New", `^2147483648$`, "takes 16 bytes for each block"},
	{"kvcache/block.BlockAllocator.Grow", `2147483648$`, "takes 16 bytes for each block"},
	{"kvcache/group.New", `Entries: (1048576|2147483648)`, "takes memory for each entry"},
	{"kvcache/prefix.New", `MaxOffloaded: `, "takes memory for each entry"},
	{"kvcache/host.New", `(1048576|2147483648)`, "takes its memory at once"},
	{"kvcache/evict.", `(1048576|2147483648|1099511627776|9223372036854775807)`, "returns as many numbers as it is asked for"},
	{"kvcache/prefix.ItemKeys", `, (1048576|2147483648|1099511627776|9223372036854775807), `, "returns a key for each block it is asked for"},
	{"kvcache/prefix.Tree.Subscribe", `, (1048576|2147483648|1099511627776|9223372036854775807)$`, "buffers up to MaxEventBuffer events"},

	{"kvcache/tier/disk.Measure", `^background, \{[^P]`, "takes seconds; Open has the same options"},

	{"kvevents/pubsub.Subscriber.Next", `background$`, "waits for a publisher"},
	{"schedule.Scheduler.Run", `^live, background$`, "waits for requests, and for Drain"},
	{"kvcache/metrics.Write", `^nil`, "writes to a writer that is nil"},

	// Its errors are those of the format, and the snapshot's reader says where the frame was: snapshot.ErrCorrupt.
	{"kvcache/snapshot/zstd.Compressor.Decompress", ``, "an error of a codec"},
}

// expected is why a call is left out.
func expected(name string, labels []string) string {
	if race.Enabled && name == "backend.HostAlloc" {
		return "takes Go's own memory there, and too much of it ends the process"
	}
	args := strings.Join(labels, ", ")
	for _, e := range exceptions {
		if strings.HasPrefix(name, e.name) && regexp.MustCompile(e.args).MatchString(args) {
			return e.why
		}
	}
	return ""
}
