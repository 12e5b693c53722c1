package snapshot

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/ferrumkv/ferrumkv/internal/crc32c"
	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/stretchr/testify/require"
)

// describe is a snapshot as scripts/check-snapshot prints it.
func describe(h *Head, rows []Chunk) string {
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	words := func(what string, list any) {
		say("%s", strings.TrimRight(what+" "+strings.Trim(fmt.Sprint(list), "[]"), " ")+map[bool]string{true: " "}[fmt.Sprint(list) == "[]"])
	}
	say("content")
	for line := range strings.Lines(h.Content) {
		say("  %s", strings.TrimSuffix(line, "\n"))
	}
	for i, s := range h.Scopes {
		salt, adapter := "no salt", "no adapter"
		if s.Salt != nil {
			salt = fmt.Sprintf("salt of %d bytes", len(s.Salt))
		}
		if s.Adapter != nil {
			adapter = fmt.Sprintf("adapter %s %s", s.Adapter.ID, s.Adapter.Version)
		}
		say("scope %d: %s, %s", i, salt, adapter)
	}
	for i, s := range h.Strips {
		say("strip %d: %v, %v, group %d, %d tokens", i, s.Kind, group.Kind(s.Keeps), s.Group, s.Tokens)
		for _, l := range s.Layers {
			for _, p := range l.Planes {
				say("  layer %d %v: %d heads of %d bytes a %s", l.Number, p.Role, p.Heads, p.Bytes, [...]string{"row", "chunk", "layer"}[p.Per])
			}
		}
	}
	for i, s := range h.Sequences {
		say("sequence %d", i)
		var e encoder
		e.flags(s.Silent, s.Private)
		say("  scope %d flags %d fidelity %d tokens %d next %d draft %d prompt %d", s.Scope, e[0], s.Fidelity, s.Len, s.Next, s.Draft, s.Prompt)
		for _, item := range s.Items {
			say("  item %d %d %x", item.Begin, item.End, item.Hash)
		}
		for _, span := range s.Spans {
			say("  span %d %d", span.Begin, span.End)
		}
		words("  ids", s.Tokens)
		for _, list := range s.Positions {
			words("  positions", list)
		}
		for strip, runs := range s.Strips {
			for _, run := range runs {
				var refs []string
				for _, ref := range run.Refs {
					refs = append(refs, fmt.Sprintf("%d/%d", ref.Chunk, ref.Tokens))
				}
				say("  run strip %d token %d: %s", strip, run.First, strings.Join(refs, " "))
			}
		}
	}
	for _, n := range h.Notes {
		say("note %s: %d bytes", n.Name, len(n.Data))
	}
	for _, c := range rows {
		say("chunk %d: strip %d, %d tokens, %d bytes, sum %08x", c.Number, c.Strip, c.Tokens, len(c.Rows), crc32c.Sum(c.Rows))
	}
	return b.String()
}

// What the library reads is what scripts/check-snapshot, which is Python, does: both compare with one text.
func TestVersion1Text(t *testing.T) {
	golden, err := os.ReadFile(goldenFile)
	require.NoError(t, err)
	h, rows, err := readAll(bytes.NewReader(golden), Options{})
	require.NoError(t, err)
	text := describe(h, rows)
	path := strings.TrimSuffix(goldenFile, ".snap") + ".txt"
	if os.Getenv("FERRUM_TEST_GOLDEN") == "write" {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text)
}
