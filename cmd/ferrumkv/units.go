package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ferrumkv/ferrumkv/internal/bytesize"
)

// byteSize is a number of bytes for people: "640.0 KiB".
func byteSize(n int64) string { return bytesize.String(n) }

// wrapped is what follows after the beginning of a line, as a list whose further lines begin after indent blanks.
func wrapped(beginning string, list []string, indent int) string {
	const width = 100
	var w strings.Builder
	w.WriteString(beginning)
	at := utf8.RuneCountInString(beginning)
	for i, item := range list {
		if i < len(list)-1 {
			item += ","
		}
		n := utf8.RuneCountInString(item)
		switch {
		case i == 0:
		case at+1+n > width:
			w.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			w.WriteByte(' ')
			at++
		}
		w.WriteString(item)
		at += n
	}
	return w.String()
}

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
