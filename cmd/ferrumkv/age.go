package main

import (
	"strconv"
	"strings"
	"time"
)

// age is a duration that can be given in days.
type age time.Duration

// Set reads 30d, or what time.ParseDuration does.
func (a *age) Set(text string) error {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		*a = age(n * float64(24*time.Hour))
		return err
	}
	d, err := time.ParseDuration(text)
	*a = age(d)
	return err
}

func (a *age) String() string {
	if *a == 0 {
		return ""
	}
	return time.Duration(*a).String()
}

// Type names it for the texts of errors.
func (*age) Type() string { return "age" }
