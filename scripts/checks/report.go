package main

import (
	"fmt"
	"text/tabwriter"
	"time"
)

// report prints a table of what each check took.
func (r *runner) report() {
	w := tabwriter.NewWriter(r.out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "\ncheck\tresult\ttime\tCPU")
	var cpu time.Duration
	for _, res := range r.results {
		outcome := "ok"
		if res.note != "" {
			outcome = res.note
		}
		if res.err != nil {
			outcome = "FAIL"
		}
		if res.wall == 0 || res.note != "" {
			fmt.Fprintf(w, "%s\t%s\t\t\n", res.name, outcome)
			continue
		}
		cpu += res.cpu
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", res.name, outcome, short(res.wall), short(res.cpu))
	}
	fmt.Fprintf(w, "all\t\t%s\t%s\n", short(time.Since(r.began)), short(cpu))
	w.Flush()
}

// list prints all checks, and what is recorded of them.
func (r *runner) list(table []check) error {
	w := tabwriter.NewWriter(r.out, 0, 8, 2, ' ', 0)
	for _, c := range table {
		state := ""
		if c.when == onChange {
			rec, why, err := r.recorded(c)
			if err != nil {
				return err
			}
			if state = "to run: " + why; why == "" {
				state = "passed " + rec.when.Format(time.DateTime) + " in " + short(rec.took)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.name, whenNames[c.when], c.what, state)
	}
	return w.Flush()
}

func short(d time.Duration) string {
	if d < time.Second {
		return "0s"
	}
	return d.Round(time.Second).String()
}
