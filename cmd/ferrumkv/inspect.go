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
	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
	"github.com/spf13/cobra"
)

func newInspect() *cobra.Command {
	var content, asJSON, verify bool
	var key secretFlag
	cmd := &cobra.Command{
		Use:   "inspect FILE|DIR",
		Short: "Show what is in a snapshot of sequences, or in a directory",
		Long: `inspect reads a snapshot, as generate --save writes it, from beginning to end, and shows
what is in it. It needs no model. It fails if a byte of the file was changed or is missing.
Tokens and salts are not shown. A sealed snapshot or directory needs its --secret.

For a directory it shows the states that a program keeps there, and with --verify checks that
all of them are whole; or it shows what --disk left there. It changes nothing, and a program
may have the directory open.`,
		Example: `  ferrumkv generate --max-tokens 150 --save story.snap
  ferrumkv inspect story.snap

  # show the states of a directory, and read and verify every chunk
  ferrumkv inspect DIR --verify`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("need exactly one FILE, a snapshot that generate --save wrote, or one DIR; see '%s --help'", cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if info, err := os.Stat(args[0]); err == nil && info.IsDir() {
				if content {
					return fmt.Errorf("--content is for snapshots, and %s is a directory", args[0])
				}
				return inspectDir(cmd, args[0], &key, verify, asJSON)
			}
			if verify {
				return errors.New("--verify is for a directory of states; a snapshot is always verified")
			}
			file, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			secret, err := key.read()
			if err != nil {
				return err
			}
			in := bufio.NewReader(file)
			x, err := inspect(in, snapshot.Options{Compressor: zstd.Compressor{}, Secret: secret})
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
				return fmt.Errorf("%s: something follows the snapshot", args[0])
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), x)
			}
			text := x.text()
			if content {
				text += "\n" + x.Content
			}
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	key.register(cmd, "the secret that the snapshot or directory is sealed with")
	cmd.Flags().BoolVar(&verify, "verify", false, "read and verify every chunk of a directory of states")
	cmd.Flags().BoolVar(&content, "content", false, "also print everything that the keys and values of a snapshot depend on")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// inspection is what is in a snapshot, as --json prints it.
type inspection struct {
	Version   int             `json:"version"`
	Bytes     int64           `json:"bytes"`
	Sealed    bool            `json:"sealed,omitempty"`
	Content   string          `json:"content"`
	Strips    []stripReport   `json:"strips"`
	Sequences []savedSequence `json:"sequences"`
	Notes     []noteReport    `json:"notes,omitempty"`
}

type stripReport struct {
	Rows   string `json:"rows"` // stored, computed or state
	Keeps  string `json:"keeps"`
	Group  int    `json:"group"` // in Model.Groups, counted from 1; 0: there are none
	Layers []int  `json:"layers"`
	Planes string `json:"planes"` // of the first layer
	Chunks int    `json:"chunks"`
	Bytes  int64  `json:"bytes"`
}

type savedSequence struct {
	Tokens   int    `json:"tokens"`
	Next     int    `json:"next_position"`
	Salted   bool   `json:"salted,omitempty"`
	Adapter  string `json:"adapter,omitempty"`
	Draft    int    `json:"draft,omitempty"`
	Prompt   int    `json:"prompt,omitempty"` // tokens of it, while some are left to compute
	Items    int    `json:"items,omitempty"`
	Fidelity string `json:"fidelity,omitempty"` // unless it is exact
	Silent   bool   `json:"silent,omitempty"`
	Unknown  bool   `json:"ids_unknown,omitempty"`
}

type noteReport struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
}

// inspect reads a snapshot to its end.
func inspect(in io.Reader, o snapshot.Options) (x inspection, err error) {
	r := snapshot.NewReader(in, o)
	h, err := r.Head()
	if err != nil {
		return x, err
	}
	x = inspection{Version: snapshot.Version, Sealed: o.Secret != nil, Content: h.Content}
	for i := range h.Strips {
		s := &h.Strips[i]
		of := stripReport{Rows: s.Kind.String(), Keeps: group.Kind(s.Keeps).String(), Group: s.Group, Planes: planes(s)}
		for _, l := range s.Layers {
			of.Layers = append(of.Layers, l.Number)
		}
		x.Strips = append(x.Strips, of)
	}
	for i := range h.Sequences {
		s := &h.Sequences[i]
		of := savedSequence{Tokens: s.Len, Next: s.Next, Salted: h.Scopes[s.Scope].Salt != nil, Draft: s.Draft, Prompt: s.Prompt, Items: len(s.Items),
			Silent: s.Silent, Unknown: s.Tokens == nil && s.Len > 0}
		if a := h.Scopes[s.Scope].Adapter; a != nil {
			of.Adapter = fmt.Sprintf("%q %q", a.ID, a.Version)
		}
		if s.Fidelity != prefix.Exact {
			of.Fidelity = fmt.Sprint(s.Fidelity)
		}
		x.Sequences = append(x.Sequences, of)
	}
	for _, n := range h.Notes {
		x.Notes = append(x.Notes, noteReport{n.Name, len(n.Data)})
	}
	for {
		c, err := r.Chunk()
		if errors.Is(err, io.EOF) {
			x.Bytes = r.Bytes()
			return x, nil
		}
		if err != nil {
			return x, err
		}
		x.Strips[c.Strip].Chunks++
		x.Strips[c.Strip].Bytes += int64(len(c.Rows))
	}
}

// text is the inspection for people.
func (x *inspection) text() string {
	var b strings.Builder
	row := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", name, fmt.Sprintf(format, args...))
	}
	whole := "whole"
	if x.Sealed {
		whole = "sealed, and whole"
	}
	row("snapshot", "version %d, %s, %s", x.Version, byteSize(x.Bytes), whole)
	for line := range strings.Lines(x.Content) {
		if name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); name == "model" || name == "layers" {
			row(name, "%s", value)
		}
	}
	for _, s := range x.Strips {
		row("rows", "%s, %s in %s, layers %v, which keep: %s", s.Rows, byteSize(s.Bytes), count(s.Chunks, "chunk"), s.Layers, s.Keeps)
		row("", "%s", s.Planes)
	}
	for i, s := range x.Sequences {
		row(fmt.Sprintf("sequence %d", i+1), "%s", s)
	}
	for _, n := range x.Notes {
		row("note", "%q, %s", n.Name, byteSize(int64(n.Bytes)))
	}
	return b.String()
}

// String is a sequence without what was said.
func (s savedSequence) String() string {
	parts := []string{count(s.Tokens, "token")}
	add := func(is bool, format string, args ...any) {
		if is {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(s.Salted, "salted")
	add(s.Adapter != "", "adapter %s", s.Adapter)
	add(s.Next != s.Tokens, "next at position %d", s.Next)
	add(s.Draft > 0, "%d of them a draft", s.Draft)
	add(s.Prompt > 0, "of a prompt of %d", s.Prompt)
	add(s.Items > 0, "%s", count(s.Items, "item"))
	add(s.Fidelity != "", "%s", s.Fidelity)
	add(s.Silent, "not findable by others")
	add(s.Unknown, "ids not known")
	return strings.Join(parts, ", ")
}

// planes are those of the first layer of a strip.
func planes(s *snapshot.Strip) string {
	var parts []string
	for _, p := range s.Layers[0].Planes {
		parts = append(parts, fmt.Sprintf("%s %d × %d B a %s", p.Role, p.Heads, p.Bytes, [...]string{"token", "chunk", "layer"}[p.Per]))
	}
	return strings.Join(parts, ", ")
}
