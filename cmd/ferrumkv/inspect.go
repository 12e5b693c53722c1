package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache/group"
	"github.com/ferrumkv/ferrumkv/kvcache/prefix"
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot"
	"github.com/spf13/cobra"
)

func newInspect() *cobra.Command {
	var content bool
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Say what is in a snapshot of sequences",
		Long: `inspect reads a snapshot, as generate --save writes it, from its beginning to its
end, and says what is in it. It needs no model. A file of which a byte was changed or is
missing is an error. Tokens and salts are not shown.`,
		Example: `  ferrumkv generate --max-tokens 150 --save story.snap
  ferrumkv inspect story.snap`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			in := bufio.NewReader(file)
			if err := inspect(cmd.OutOrStdout(), in, content); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
				return fmt.Errorf("%s: something stands behind the snapshot", args[0])
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&content, "content", false, "print all that keys and values depend on")
	return cmd
}

// inspect reads a snapshot and prints what is in it.
func inspect(w io.Writer, in io.Reader, content bool) error {
	r := snapshot.NewReader(in)
	h, err := r.Head()
	if err != nil {
		return err
	}
	chunks, bytes := make([]int, len(h.Strips)), make([]int64, len(h.Strips))
	for {
		c, err := r.Chunk()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		chunks[c.Strip]++
		bytes[c.Strip] += int64(len(c.Rows))
	}
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	row("snapshot", "version %d, %s, whole", snapshot.Version, byteSize(r.Bytes()))
	for line := range strings.Lines(h.Content) {
		if name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); name == "model" || name == "layers" {
			row(name, "%s", value)
		}
	}
	for i := range h.Strips {
		s := &h.Strips[i]
		row(fmt.Sprintf("strip %d", i), "%s of %s in %s, %s, up to %s each", s.Kind, count(len(s.Layers), "layer"), count(chunks[i], "chunk"), byteSize(bytes[i]), count(s.Tokens, "token"))
		row("", "%s, %s", planes(s), keeps(s))
	}
	row("sequences", "%d", len(h.Sequences))
	for i := range h.Sequences {
		row(fmt.Sprintf("  %d", i+1), "%s", ofSequence(h, &h.Sequences[i]))
	}
	for _, n := range h.Notes {
		row("note", "%q, %s", n.Name, byteSize(int64(len(n.Data))))
	}
	if content {
		b.WriteString("\n" + h.Content)
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// planes are those of the first layer of a strip.
func planes(s *snapshot.Strip) string {
	var parts []string
	for _, p := range s.Layers[0].Planes {
		parts = append(parts, fmt.Sprintf("%s %d × %d B a %s", p.Role, p.Heads, p.Bytes, [...]string{"token", "chunk", "layer"}[p.Per]))
	}
	return strings.Join(parts, ", ")
}

// keeps is what the layers of a strip keep.
func keeps(s *snapshot.Strip) string {
	kind := group.Kind(s.Keeps)
	if s.Group == 0 {
		return "kind " + kind.String()
	}
	return fmt.Sprintf("group %d, kind %s", s.Group-1, kind)
}

// ofSequence is a sequence without what was said.
func ofSequence(h *snapshot.Head, s *snapshot.Sequence) string {
	parts := []string{count(s.Len, "token")}
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	scope := h.Scopes[s.Scope]
	add(scope.Salt != nil, "salted")
	if a := scope.Adapter; a != nil {
		add(true, "adapter %q %q", a.ID, a.Version)
	}
	add(s.Next != s.Len, "next at position %d", s.Next)
	add(s.Draft > 0, "%d of them a draft", s.Draft)
	add(s.Prompt > 0, "of a prompt of %d", s.Prompt)
	add(len(s.Items) > 0, "%s", count(len(s.Items), "item"))
	add(s.Fidelity != prefix.Exact, "%v", s.Fidelity)
	add(s.Silent, "found by nobody")
	add(s.Tokens == nil && s.Len > 0, "ids not known")
	return strings.Join(parts, ", ")
}
