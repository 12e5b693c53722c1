package cpu

import (
	"bufio"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// physicalMemory is the bytes of memory that the process may use, the machine's or
// those of its container; 0 when unknown.
func physicalMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	total := int64(uint64(info.Totalram) * uint64(info.Unit))
	if limit := containerMemory(os.DirFS("/sys/fs/cgroup")); limit > 0 {
		return min(total, limit)
	}
	return total
}

// containerMemory is the limit of the process's control group, of either version,
// in bytes; 0 when there is none.
func containerMemory(cgroup fs.FS) int64 {
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		text, err := fs.ReadFile(cgroup, name)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is none
		if err == nil && limit > 0 {
			return limit
		}
	}
	return 0
}

// processorName is the vendor's name of the processor; "" when unknown.
func processorName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
