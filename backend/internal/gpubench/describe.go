package gpubench

import (
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// describe prints what figures depend on, as lines that benchstat reads.
func (r *rig[B]) describe() {
	info := r.Backend.Info()
	line("device", fmt.Sprintf("%s, %d units, %.1f GiB", info.Device, info.Units, float64(info.TotalMemory)/(1<<30)))
	for _, about := range r.About {
		line(about[0], about[1])
	}
	line("go", runtime.Version())
	line("date", time.Now().UTC().Format("2 January 2006"))
	line("commit", source())
	if r.Emulated {
		line("emulated", "sizes are reduced: figures mean nothing")
	}
	for _, s := range r.states {
		line(s[0], s[1])
	}
}

func line(key, value string) { fmt.Printf("%s: %s\n", key, value) }

// state prints the device's state at this moment.
func (r *rig[B]) state(when string) {
	if r.State != nil {
		line(when, r.State())
	}
}

// under is the device's state while it repeats op: what it is at rest says little.
func (r *rig[B]) under(when string, op operation) {
	if r.State == nil {
		return
	}
	const settled = 500 * time.Millisecond // clocks and power follow the load
	done, began := make(chan string), time.Now()
	var reading bool
	for {
		r.time(r.Clock.Most, op)
		if !reading && time.Since(began) > settled {
			reading = true
			go func() { done <- r.State() }()
		}
		select {
		case state := <-done:
			r.states = append(r.states, [2]string{when, state})
			return
		default:
		}
	}
}

// commit is that of the source; the linker sets it in programs that run elsewhere.
var commit string

func source() string {
	if commit != "" {
		return commit
	}
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
