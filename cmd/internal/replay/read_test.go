package replay

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	lineA = `{"timestamp": 27482, "input_length": 1025, "output_length": 52, "hash_ids": [46, 47, 18446744073709551615]}`
	lineB = `{"timestamp": 0.5, "input_length": 0, "output_length": 0, "hash_ids": [], "turn": 1}`
	lineC = `{"hash_ids": [46, 48], "timestamp": 30535, "input_length": 600, "output_length": 26}`
)

// session has a sub-agent that ran for a second until 3.5, beside the second request.
const session = `{"id": "s", "block_size": 64, "hash_id_scope": "local", "requests": [
	{"t": 0.0, "type": "n", "in": 150, "out": 9, "hash_ids": [1, 2]},
	{"t": 3.0, "type": "s", "in": 210, "out": 9, "hash_ids": [1, 2, 3]},
	{"t": 3.5, "type": "subagent", "duration_ms": 1000, "requests": [
		{"t": 0.25, "type": "n", "in": 70, "out": 9, "hash_ids": [7]},
		{"t": 0.75, "type": "n", "in": 70, "out": 9, "hash_ids": [7, 3]}]},
	{"t": 9, "type": "n", "in": 10, "out": 9, "hash_ids": []}]}`

// write writes a file of a new directory.
func write(t testing.TB, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// paths is the blocks of all requests.
func paths(trace *Trace) (out [][]uint32) {
	for i := range trace.Requests() {
		out = append(out, trace.Path(i))
	}
	return out
}

// lengths are the tokens of the prompts and answers of all requests.
func lengths(trace *Trace) (out [][2]int) {
	for i := range trace.Requests() {
		out = append(out, [2]int{trace.Tokens(i), trace.Output(i)})
	}
	return out
}

func TestReadMooncake(t *testing.T) {
	path := write(t, "any.name", lineA+"\n\n"+lineB+"\r\n"+lineC)
	trace, err := Read(t.Context(), path)
	require.NoError(t, err)
	require.Equal(t, [][]uint32{{}, {0, 1, 2}, {0, 3}}, paths(trace), "in the order of time")
	require.Equal(t, []int{0, 2, 1}, []int{trace.Full(0), trace.Full(1), trace.Full(2)}, "of 1,025 tokens two blocks are full")
	require.Equal(t, [][2]int{{0, 0}, {1025, 52}, {600, 26}}, lengths(trace))
	require.Equal(t, []float64{0.0005, 27.482, 30.535}, []float64{trace.At(0), trace.At(1), trace.At(2)})
	require.Equal(t, 512, trace.BlockTokens)
	require.Equal(t, path, trace.Name)
}

func TestReadAgentic(t *testing.T) {
	trace, err := Read(t.Context(), write(t, "s.json", session))
	require.NoError(t, err)
	require.Equal(t, [][]uint32{{0, 1}, {3}, {0, 1, 2}, {3, 4}, {}}, paths(trace), "a sub-agent's times count from its start")
	require.Equal(t, 3, trace.Full(2), "only full blocks are named")
	require.Equal(t, [][2]int{{150, 9}, {70, 9}, {210, 9}, {70, 9}, {10, 9}}, lengths(trace))
	require.Equal(t, 64, trace.BlockTokens)
	require.Equal(t, 3, trace.InfiniteHits(), "the sub-agent's second request hits, too")
}

func TestReadSeveral(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"b.json": session, "a.json": session, "LICENSE": "not a trace", "c.json.bak": "nor this",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "d.json"), 0o700))
	trace, err := Read(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, 10, trace.Unique(), "no block in common")
	require.Equal(t, [][]uint32{{0, 1}, {5, 6}, {3}, {8}}, paths(trace)[:4], "interleaved by time, then by name")
	files, err := Read(t.Context(), filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json"))
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "a.json")+","+filepath.Join(dir, "b.json"), files.Name)
	files.Name = trace.Name
	require.Equal(t, trace, files)
}

func TestReadRefuses(t *testing.T) {
	deep := `{"t": 1, "in": 9, "hash_ids": []}`
	for range maxNesting + 1 {
		deep = `{"t": 1, "requests": [` + deep + `]}`
	}
	line := func(old, new string) string { return lineC + "\n" + strings.Replace(lineA, old, new, 1) }
	in := func(old, new string) string { return strings.Replace(session, old, new, 1) }
	for _, c := range []struct{ text, want string }{
		{"", "the file is empty"},
		{" \n", "the file is empty"},
		{"[1, 2]", "neither a Mooncake trace (lines with timestamp, input_length, output_length, hash_ids) nor an agentic one (an object with block_size, requests)"},
		{`{"id": 3`, "neither a Mooncake trace"},
		{`TIMESTAMP,ContextTokens`, "neither a Mooncake trace"},
		{lineB, "has no request with a block"},
		{line(`1025`, `1025.5`), "line 2: input_length: number 1025.5 is not a whole number"},
		{line(`1025`, `-1`), "line 2: input_length: -1 is negative"},
		{line(`"output_length": 52, `, ``), "line 2: output_length: is missing"},
		{line(`"input_length": 1025, `, ``), "line 2: input_length: is missing"},
		{line(`27482`, `"now"`), "line 2: timestamp: string is not a number"},
		{line(`27482`, `null`), "line 2: timestamp: is missing"},
		{line(`27482`, `1e999`), "line 2: timestamp: number 1e999 is not a number"},
		{line(`27482`, `-3`), "line 2: timestamp: -3 is negative"},
		{line(`"hash_ids"`, `"hashes"`), "line 2: hash_ids: is missing"},
		{line(`46`, `-46`), "line 2: hash_ids: number -46 is not a whole number from 0 to 2^64−1"},
		{line(`615]`, `616]`), "line 2: hash_ids: number 18446744073709551616 is not a whole number from 0 to 2^64−1"},
		{line(`[46`, `{46`), "line 2: not JSON at byte "},
		{line(`[46, 47, 18446744073709551615]`, `7`), "line 2: hash_ids: number is not a list"},
		{line(lineA, `[1]`), "line 2: array is not an object"},
		{lineC + "\n" + session, "line 2: not JSON at byte "},
		{lineC + "\n" + `{"timestamp": 1`, "line 2: not JSON at byte 15: unexpected end"},
		{in(`64`, `0`), "block_size: have 0, accepts 1 to 1073741824"},
		{in(`64`, `null`), "block_size: is missing"},
		{in(`"block_size": 64, `, ``), "block_size: is missing"},
		{in(`"local"`, `"global"`), `hash_id_scope: have "global", accepts local`},
		{`{"block_size": 64}`, "requests: is missing"},
		{`{"block_size": 64, "requests": {}}`, "requests: object is not a list"},
		{`{"block_size": 64, "requests": [7]}`, "request 1: number is not an object"},
		{in(`"t": 3.0, `, ``), "request 2: t: is missing"},
		{in(`"t": 3.0`, `"t": -3`), "request 2: t: -3 is negative"},
		{in(`"in": 210`, `"in": -210`), "request 2: in: -210 is negative"},
		{in(`"in": 210, `, ``), "request 2: in: is missing"},
		{in(`"in": 210, "out": 9`, `"in": 210, "out": -9`), "request 2: out: -9 is negative"},
		{in(`"hash_ids": [1, 2, 3]`, `"hashes": 1`), "request 2: hash_ids: is missing"},
		{in(`[7, 3]`, `[7, 0.5]`), "request 3.2: hash_ids: number 0.5 is not a whole number from 0 to 2^64−1"},
		{in(`"duration_ms": 1000`, `"duration_ms": -1`), "request 3: duration_ms: -1 is negative"},
		{in(`"duration_ms": 1000`, `"hash_ids": []`), "request 3: requests: a request has hash_ids, a sub-agent has requests; this has both"},
		{in(`]}]}`, `]}]`), "not JSON at byte "},
		{session + session, "not JSON at byte "},
		{`{"block_size": 64, "requests": [` + deep + `]}`, strings.Repeat("1.", maxNesting) + "1: requests: sub-agents are nested more than 16 levels deep"},
	} {
		path := write(t, "trace", c.text)
		_, err := Read(t.Context(), path)
		require.ErrorIs(t, err, ErrTrace{}, c.text)
		require.ErrorContains(t, err, path+": ")
		require.ErrorContains(t, err, c.want, c.text)
	}
}

func TestReadRefusesFiles(t *testing.T) {
	_, err := Read(t.Context(), filepath.Join(t.TempDir(), "none.jsonl"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, err, ErrTrace{})
	require.ErrorContains(t, err, "none.jsonl: no such file")
	_, err = Read(t.Context(), t.TempDir())
	require.ErrorContains(t, err, "the directory holds no .json or .jsonl file")
	_, err = Read(t.Context(), write(t, "a", lineA), write(t, "b", session))
	require.ErrorContains(t, err, "/b: has blocks of 64 tokens, the files before it of 512; replay them one by one")
	_, err = Read(t.Context(), write(t, "a", lineA+"\n"+`{"timestamp":`+strings.Repeat(" ", maxLine)+`1}`))
	require.ErrorContains(t, err, "/a: line 2: is longer than 67108864 bytes")
}

func TestReadEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, text := range []string{strings.Repeat(lineA+"\n", checkEvery), session} {
		_, err := Read(ctx, write(t, "trace", text))
		require.ErrorIs(t, err, context.Canceled)
	}
	_, err := Synthetic(ctx, DefaultSynthesis)
	require.ErrorIs(t, err, context.Canceled)
}

// fuzzRead reads any text: with an error that says where, or as a trace that can
// be replayed.
func fuzzRead(f *testing.F, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b := newBuilder()
		if err := readFrom(t.Context(), b, "trace", bytes.NewReader(text)); err != nil {
			require.ErrorIs(t, at("trace", "", err), ErrTrace{})
			return
		}
		trace := b.finish("trace")
		require.Positive(t, trace.BlockTokens)
		require.LessOrEqual(t, trace.Unique(), trace.References())
		require.Equal(t, trace.InfiniteHits(), hits(t, trace, newModel(trace.Unique(), 0)))
		require.Equal(t, trace.InfiniteHits(), hits(t, trace, newOptimum(trace, trace.Unique())))
	})
}

func FuzzReadMooncake(f *testing.F) {
	fuzzRead(f, lineA, lineA+"\n"+lineB+"\n"+lineC, strings.ReplaceAll(lineC, "46", "1e3"))
}

func FuzzReadAgentic(f *testing.F) {
	fuzzRead(f, session, strings.ReplaceAll(session, "64", "-1"), strings.ReplaceAll(session, "3.5", "0"))
}
