package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/cmd/internal/quality"
	"github.com/ferrumkv/ferrumkv/internal/testutil/external"
	"github.com/ferrumkv/ferrumkv/internal/testutil/race"
	"github.com/stretchr/testify/require"
)

// qualityTable is a command of docs/quality.md or docs/commands.md, and the rows that it printed.
type qualityTable struct {
	args []string
	rows map[string][]string // by scene, format, policy and budget
	// scenes are the lines above the tables of scenes.
	scenes []string
}

// parts is where a row's format, policy and budget end and its numbers begin.
const parts = 3

// rowsOf are the rows of the printed tables, one or one for each scene, and what is said of the
// scenes.
func rowsOf(text string) (rows map[string][]string, scenes []string) {
	rows = map[string][]string{}
	scene := ""
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == "scene" {
			scenes = append(scenes, line)
			scene = strings.Trim(fields[1], ",;") + " "
		}
		if i := slices.IndexFunc(fields, func(s string) bool { return strings.HasSuffix(s, "%") }); i == parts+3 {
			rows[scene+strings.Join(fields[:parts], " ")] = fields[parts:]
		}
	}
	return rows, scenes
}

// documented are the tables of docs/quality.md, and of docs/commands.md. What they name data is the
// external test data.
func documented(t *testing.T) (tables []qualityTable) {
	for _, page := range []string{"quality.md", "commands.md"} {
		for _, s := range samples(t, page) {
			if s.args[0] != "quality" {
				continue
			}
			rows, scenes := rowsOf(s.out)
			require.NotEmpty(t, rows, s.args)
			tables = append(tables, qualityTable{s.args, rows, scenes})
		}
	}
	return tables
}

// What the documents say is what the command prints: a few rows here, all of them with
// FERRUM_TEST_QUALITY=1, as in make quality.
func TestQualityDocument(t *testing.T) {
	all := given["FERRUM_TEST_QUALITY"] != ""
	tables := documented(t)
	require.Len(t, tables, 9)
	pictures := 0
	for _, table := range tables {
		if slices.Contains(table.args, "--svg") { // of everything: a format that is new has a row, and is in the picture
			pictures++
			for _, name := range strings.Split(quality.FormatNames(), ", ") {
				require.Contains(t, table.rows, name+" none -", "%v", table.args)
			}
		}
		args, rows := slices.Clone(table.args), len(table.rows)
		if !all {
			small, scene := slices.Contains(args, "--model"), slices.Contains(args, "--scene")
			if slices.Contains(args, "--policy") || scene && !small {
				continue // the slow ones: a token a step
			}
			formats := []string{"int8"}
			if small {
				formats = []string{"f16", "int8", "int4", "kivi4"}
			}
			if i := slices.Index(args, "--format"); i >= 0 {
				formats, args = []string{"f32", "kivi4"}, slices.Delete(args, i, i+2)
			}
			args, rows = append(args, "--format", strings.Join(formats, ",")), len(formats)*max(1, len(table.scenes))
		}
		t.Run(strings.Join(args[1:], " "), func(t *testing.T) {
			for i, arg := range args {
				if file, ok := strings.CutPrefix(arg, "data/"); ok {
					args[i] = external.Path(t, file)
				}
			}
			if race.Enabled {
				t.Skip("arithmetic is ten times slower under the race detector")
			}
			if i := slices.Index(args, "--svg"); i >= 0 {
				args = slices.Delete(args, i, i+2)
			}
			got, scenes := rowsOf(succeeds(t, args...).stdout)
			require.Len(t, got, rows)
			require.Equal(t, table.scenes, scenes)
			for name, row := range got {
				require.Contains(t, table.rows, name)
				alike(t, name, table.rows[name], row)
			}
		})
	}
	require.Equal(t, 2, pictures)
}

// alike compares the numbers of two rows. Another processor adds in another order, and then a
// value may be rounded to another code; bytes are the same everywhere.
func alike(t *testing.T, name string, want, got []string) {
	t.Helper()
	require.Equal(t, want[4:], got[4:], "%s: bytes", name)
	number := func(row []string, i int) float64 {
		v, err := strconv.ParseFloat(strings.TrimSuffix(row[i], "%"), 64)
		require.NoError(t, err, name)
		return v
	}
	within := 0.002 + 0.05*math.Abs(number(want, 1))
	for i, what := range []string{"nll", "loss", "kl"} {
		require.InDelta(t, number(want, i), number(got, i), within, "%s: %s", name, what)
	}
	require.InDelta(t, number(want, 3), number(got, 3), 0.5, "%s: top1 in percent", name)
}
