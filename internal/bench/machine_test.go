package bench

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"
)

// leastFlush is the bytes between two uses of a byte where caches are small or unknown.
const leastFlush = 640 << 20

// flushed is the bytes after which a byte has left caches of that size, with some to spare.
func flushed(lastCache int) int { return pages(max(leastFlush, lastCache*5/2)) }

// describe writes what figures depend on, as lines that benchstat reads.
func (r *processor) describe(w io.Writer) {
	line := func(key, format string, args ...any) { _, _ = fmt.Fprintf(w, key+": "+format+"\n", args...) }
	line("machine", "%s, %d processors, GOMAXPROCS %d", r.home.be.Info().Device, runtime.NumCPU(), runtime.GOMAXPROCS(0))
	line("processor", "%s", processorKind())
	line("caches", "%s", cacheSizes())
	line("memory", "%.1f GiB", gib(int(r.home.be.Info().TotalMemory)))
	line("system", "%s", systemName())
	line("go", "%s", runtime.Version())
	line("date", "%s", time.Now().UTC().Format("2 January 2006"))
	line("commit", "%s", commitOfSource())
	line("kernels", "%s", strings.Join(r.kernels, ", "))
	line("flush", "%.0f MiB are used between two uses of a byte", gib(r.flush)*1024)
	line("probes", "reading prefetches %d bytes ahead, copying %d", r.ahead[reading], r.ahead[copying])
	if r.short {
		line("short", "sizes are reduced: figures mean nothing")
	}
	if r.reduced != nil {
		line("reduced", "%s", strings.Join(r.reduced, "; "))
	}
}
