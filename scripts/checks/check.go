package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// check is a command that passes or fails.
type check struct {
	name    string // of the make target, where there is one
	what    string
	when    when
	command []string
	env     []string
	takes   time.Duration // about, beside another check on two cores: the longest begin first
	// inputs are what a record depends on, besides the command, go.mod and go.sum.
	packages []string // with all in this repository that they and their tests import
	except   []string // of these packages, those that another check tests
	tags     string   // of the packages
	paths    []string // pathspecs of git
	tools    []string // whose versions count, too
	alone    string   // what it writes that others with the same word do, too: one of them at a time
}

type when int

const (
	always   when = iota // for every change
	onChange             // where its inputs have no record
	atNight              // at full size; what a change is checked by is a part of it
)

var whenNames = [...]string{"always", "on change", "at night"}

// find is the checks of these names, in their order.
func find(table []check, names []string) ([]check, error) {
	var found []check
	for _, name := range names {
		i := slices.IndexFunc(table, func(c check) bool { return c.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no check %s; list names them", name)
		}
		found = append(found, table[i])
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("name checks: %s", strings.Join(namesOf(table), ", "))
	}
	return found, nil
}

func namesOf(checks []check) []string {
	names := make([]string, len(checks))
	for i, c := range checks {
		names[i] = c.name
	}
	return names
}

// of is the checks of a kind.
func of(table []check, kind when) []check {
	var found []check
	for _, c := range table {
		if c.when == kind {
			found = append(found, c)
		}
	}
	return found
}
