package bench

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

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

// processorKind is what a processor's name leaves out: its family and model, where it has such.
func processorKind() string {
	var kind []string
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		key, value, _ := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); (key == "cpu family" || key == "model") && len(kind) < 2 {
			kind = append(kind, strings.TrimPrefix(key, "cpu ")+" "+strings.TrimSpace(value))
		}
	}
	if kind == nil {
		return "unknown"
	}
	return strings.Join(kind, ", ")
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
