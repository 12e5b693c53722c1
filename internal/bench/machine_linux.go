package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// read is the text of a file; empty where there is none.
func read(path ...string) string {
	text, _ := os.ReadFile(filepath.Join(path...))
	return strings.TrimSpace(string(text))
}

// lastCache is the bytes of the last cache before memory; 0 when unknown.
func lastCache() (bytes int) {
	for _, c := range caches() {
		bytes = max(bytes, c.bytes)
	}
	return bytes
}

// cacheSizes is the caches of a processor, for people.
func cacheSizes() string {
	var names []string
	for _, c := range caches() {
		names = append(names, fmt.Sprintf("%s %d KiB", c.name, c.bytes>>10))
	}
	if names == nil {
		return "unknown"
	}
	return strings.Join(names, ", ")
}

type cache struct {
	name  string
	bytes int
}

// caches is those of the first processor, but for instructions.
func caches() (all []cache) {
	dirs, _ := filepath.Glob("/sys/devices/system/cpu/cpu0/cache/index*")
	for _, dir := range dirs {
		kind := read(dir, "type")
		kib, err := strconv.Atoi(strings.TrimSuffix(read(dir, "size"), "K"))
		if err != nil || kind == "Instruction" {
			continue
		}
		name := "L" + read(dir, "level")
		if kind == "Data" {
			name += "d"
		}
		all = append(all, cache{name, kib << 10})
	}
	return all
}

// systemName is the operating system and its release.
func systemName() string { return "linux " + read("/proc/sys/kernel/osrelease") }

// freeMemory is the bytes that the system could give; 0 when unknown.
func freeMemory() int {
	for line := range strings.Lines(read("/proc/meminfo")) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemAvailable:" {
			kib, _ := strconv.Atoi(fields[1])
			return kib << 10
		}
	}
	return 0
}

// ticks is the time of the processors until now, in ticks of the system.
func ticks() (used, all float64) {
	head, _, _ := strings.Cut(read("/proc/stat"), "\n")
	const idle, wait, guest = 4, 5, 9 // fields; what guests used is also in others
	for i, field := range strings.Fields(head) {
		n, _ := strconv.ParseFloat(field, 64)
		if i >= guest {
			break
		}
		if all += n; i != idle && i != wait {
			used += n
		}
	}
	return used, all
}

// tick is the seconds of one: a constant of the interface, whatever the kernel counts in.
const tick = 0.01

// ownSeconds is the processor time of this process.
func ownSeconds() float64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
