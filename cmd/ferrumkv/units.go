package main

import (
	"fmt"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/bytesize"
)

// byteSize is a number of bytes for people: "640.0 KiB".
func byteSize(n int64) string { return bytesize.String(n) }

// seconds is a duration for people, with three digits that mean something.
func seconds(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.3g s", s)
	case s >= 1e-3:
		return fmt.Sprintf("%.3g ms", s*1e3)
	}
	return fmt.Sprintf("%.3g µs", s*1e6)
}

// count is a number of things for people: "1 token", "2 tokens".
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// perSecond is the rate of n things in d; 0 where no time passed.
func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
