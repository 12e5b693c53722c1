package cpu

import (
	"bufio"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// physicalMemory is the bytes of the machine's memory; 0 when unknown.
func physicalMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit))
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
