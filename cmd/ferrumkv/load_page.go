package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
)

//go:embed load_page.html
var loadPageText string

var loadTemplate = pageTemplate(loadPageText)

// loadPage is what the template shows.
type loadPage struct {
	Program, Server, Model string
	Facts                  []pageFact
	Charts                 []chart
	Quantiles              []string
	Times                  []pageTime
	Lines                  [][2]string
}

type pageFact struct{ Name, Value string }

type pageTime struct {
	Name, Count string
	Cells       []string
}

// writePage writes the report as one file that needs nothing else to be shown.
func (r *loadReport) writePage(path string) error {
	var out bytes.Buffer
	if err := loadTemplate.Execute(&out, r.page()); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func (r *loadReport) page() loadPage {
	hits := "not reported"
	if r.HitRateKnown {
		hits = percent(r.HitRate)
	}
	p := loadPage{Program: version(), Server: r.server, Model: r.model, Quantiles: quantileNames, Lines: r.lines(),
		Facts: []pageFact{
			{"Requests", grouped(r.Sent)},
			{"Failed", grouped(r.Failed)},
			{"First token, p99", quantileCells(r.TTFT)[4]},
			{"Per token, p99", quantileCells(r.TPOT)[4]},
			{"Hit rate", hits},
			{"Possible hit rate", percent(r.PossibleHitRate)},
			{"Goodput, " + r.objective.String(), fmt.Sprintf("%.3g requests/s, %s", r.Goodput, percent(r.GoodputShare))},
		},
		Charts: r.charts(),
	}
	for _, t := range r.times() {
		p.Times = append(p.Times, pageTime{t.name, grouped(t.Count), quantileCells(t.Quantiles)})
	}
	return p
}
