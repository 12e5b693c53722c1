package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

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

// read is the text of a file; empty where there is none.
func read(path ...string) string {
	text, _ := os.ReadFile(filepath.Join(path...))
	return strings.TrimSpace(string(text))
}
