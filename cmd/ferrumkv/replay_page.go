package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"os"

	"github.com/ferrumkv/ferrumkv/cmd/internal/replay"
)

//go:embed replay_page.html
var replayPage string

//go:embed page_parts.html
var sharedPage string

var replayTemplate = pageTemplate(replayPage)

// pageTemplate is a page with the style and the charts that all pages have.
func pageTemplate(text string) *template.Template {
	return template.Must(template.Must(template.New("page").Parse(sharedPage)).Parse(text))
}

// page is what the template shows: text and numbers, none of which it computes.
type page struct {
	Program, Trace                         string
	Requests, References, Unique, Infinite string
	InfiniteRate, BlockTokens, Optimum     string
	Series                                 []series
	Charts                                 []chart
	Rows                                   []pageRow
	Parts                                  *pageParts // nil: full attention only
	Tiers                                  string     // empty: none
}

// series is a policy and how it is drawn.
type series struct{ Name, Class string }

// pageRow is a capacity in the table.
type pageRow struct {
	Capacity, Blocks string
	Cells            []pageCell
}

type pageCell struct {
	Rate, Hits string
	Best       bool
}

// writePage writes the report as one file that needs nothing else to be shown.
func (r *replayReport) writePage(path string) error {
	var out bytes.Buffer
	if err := replayTemplate.Execute(&out, r.page()); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o644)
}

func (r *replayReport) page() page {
	t := r.trace
	p := page{
		Program: version(), Trace: t.Name, Optimum: replay.Optimum,
		Requests: grouped(t.Requests()), References: grouped(t.References()), Unique: grouped(t.Unique()),
		Infinite: grouped(r.infinite.Hits), InfiniteRate: percent(r.rate(r.infinite)), BlockTokens: fmt.Sprint(t.BlockTokens),
		Series: r.series(),
		Charts: []chart{r.hitRates(), r.ofOptimum()},
		Parts:  r.pageParts(),
	}
	if p.Parts != nil {
		p.Charts[1] = r.fullHitRates()
	}
	if r.setup.Tiers.Any() {
		p.Tiers, p.Charts[1] = describeTiers(r.setup.Tiers), r.aloneHitRates()
		if r.setup.Tiers.Prefill > 0 {
			p.Tiers += "; " + describeRates(r.setup.Tiers)
		}
	}
	for _, row := range r.rows {
		line := pageRow{Capacity: row[0].Capacity.String(), Blocks: grouped(row[0].Blocks)}
		for _, run := range row {
			line.Cells = append(line.Cells, pageCell{percent(r.rate(run)), grouped(run.Hits), r.best(run, row)})
		}
		p.Rows = append(p.Rows, line)
	}
	return p
}

// series gives each policy a colour of the page; the optimum, a bound, is grey.
func (r *replayReport) series() []series {
	const colours = 8 // that the page has
	var out []series
	for i, name := range r.policies {
		class := fmt.Sprintf("s%d", i%colours)
		if name == replay.Optimum {
			class = "bound"
		}
		out = append(out, series{name, class})
	}
	return out
}

// percent is a share for people.
func percent(share float64) string { return fmt.Sprintf("%.2f%%", 100*share) }
