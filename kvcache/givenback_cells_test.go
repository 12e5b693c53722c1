package kvcache

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// cells is a table of results, and what its letters mean.
type cells struct {
	rows  [][]string
	texts []string // by letter
}

const cellsHead = `# What layers that give blocks back compute, beside a mask that hides the same and gives nothing back. A row is a feature
# and what is done with sequences that have given blocks back; columns are kinds of groups. In a cell "equal" says that every row
# was; letters are what was refused, with errors that are listed below. What depends on Memory.Rollback has values for -1, 5 and
# 16, in this order; a value like the one before it is left out. TestGivenBack writes this file.
`

// read adopts the letters of a table.
func (c *cells) read(text string) {
	for line := range strings.SplitSeq(text, "\n") {
		if letter, meaning, ok := strings.Cut(line, " = "); ok && letter == letterOf(len(c.texts)) {
			c.texts = append(c.texts, meaning)
		}
	}
}

func letterOf(i int) string { return string(rune('A' + i)) }

// cell names what was refused.
func (c *cells) cell(refused []string) string {
	var letters []string
	for _, text := range refused {
		of, alone := strings.CutPrefix(text, "no pool: ")
		i := 0
		for i < len(c.texts) && c.texts[i] != of {
			i++
		}
		if i == len(c.texts) {
			c.texts = append(c.texts, of)
		}
		if alone {
			return "refused: " + letterOf(i)
		}
		letters = append(letters, letterOf(i))
	}
	if len(letters) == 0 {
		return "equal"
	}
	return "equal but " + strings.Join(letters, " ")
}

func (c *cells) row(row []string) { c.rows = append(c.rows, row) }

// line is a row as it is printed.
func (c *cells) line(row []string) string {
	out := fmt.Sprintf("%-58s", row[0])
	for _, cell := range row[1:] {
		out += fmt.Sprintf(" | %-25s", cell)
	}
	return strings.TrimRight(out, " ")
}

func (c *cells) text() string {
	head := []string{"feature: what is done"}
	for _, g := range givings() {
		head = append(head, g.name)
	}
	lines := []string{cellsHead, c.line(head)}
	for _, row := range c.rows {
		lines = append(lines, c.line(row))
	}
	lines = append(lines, "")
	for i, text := range c.texts {
		lines = append(lines, letterOf(i)+" = "+text)
	}
	return strings.Join(lines, "\n") + "\n"
}

// among requires every row to be in a complete table, which may have more values in a cell.
func (c *cells) among(t *testing.T, all string) {
	t.Helper()
	lines := map[string][]string{}
	for line := range strings.SplitSeq(all, "\n") {
		cells := strings.Split(line, "|")
		lines[strings.TrimSpace(cells[0])] = cells[1:]
	}
	for _, row := range c.rows {
		want := lines[row[0]]
		require.Len(t, want, len(row)-1, row[0])
		for i, cell := range row[1:] {
			require.Contains(t, strings.Split(strings.TrimSpace(want[i]), " / "), cell, "%s, %s", row[0], givings()[i].name)
		}
	}
}
