package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/kvcache/snapshot/zstd"
	"github.com/ferrumkv/ferrumkv/kvcache/states"
	"github.com/spf13/cobra"
)

func newStates() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "states",
		Short: "List or clear a directory of states",
		Long: `states lists or removes the conversations that a program keeps in a directory with the
package kvcache/states. Nothing is lost with a state but the time to compute it again. Tokens
and salts are never shown.

list changes nothing, and a program may have the directory open. clear needs it to be closed,
and also removes states that have expired or are damaged.`,
		Example: `  ferrumkv states list DIR

  # remove what was not used for 30 days
  ferrumkv states clear DIR --unused 30d`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newStatesList(), newStatesClear())
	return cmd
}

// oneDirectory requires the argument DIR.
func oneDirectory(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("need exactly one DIR; see '%s --help'", cmd.CommandPath())
	}
	return nil
}

// openStates opens an existing directory without limits, so that it removes nothing but states that have expired or are damaged.
func openStates(dir string, key *secretFlag) (*states.Store, error) {
	secret, err := key.read()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "meta.json")); err != nil {
		return nil, fmt.Errorf("%s is not a directory of states: %w", dir, err)
	}
	s, err := states.Open(dir, states.Options{Bytes: math.MaxInt64, Floor: 1, Secret: secret, Compressor: zstd.Compressor{}, Network: true})
	if errors.As(err, new(states.ErrInUse)) {
		return nil, fmt.Errorf("%s is open in a program, which has to end first", dir)
	}
	return s, err
}

// lookAtStates says what a directory has, which a program may have open.
func lookAtStates(cmd *cobra.Command, dir string, key *secretFlag, verify bool) (states.Contents, error) {
	secret, err := key.read()
	if err != nil {
		return states.Contents{}, err
	}
	return states.Look(cmd.Context(), dir, states.Options{Secret: secret, Compressor: zstd.Compressor{}}, verify)
}

// damageOf is an error where states are damaged.
func damageOf(dir string, c *states.Contents) error {
	if len(c.Damaged) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s damaged; the program that keeps them will give them up and compute them again", dir, count(len(c.Damaged), "state"))
}

// listedState is a state as --json prints it.
type listedState struct {
	ID       string     `json:"id"`
	Model    string     `json:"model"`
	Engine   string     `json:"engine"`
	Version  string     `json:"version"`
	Settings string     `json:"settings,omitempty"`
	Adapter  string     `json:"adapter,omitempty"`
	Salted   bool       `json:"salted,omitempty"`
	Name     string     `json:"name,omitempty"`
	Tokens   int        `json:"tokens"`
	Bytes    int64      `json:"bytes"`
	Parts    []string   `json:"parts"`
	LastUse  time.Time  `json:"last_use"`
	Expires  *time.Time `json:"expires,omitempty"`
	Pinned   bool       `json:"pinned"`
}

func listed(i *states.Info) listedState {
	l := listedState{ID: i.ID.String(), Model: i.Key.Model, Engine: i.Key.Engine, Version: i.Key.Version,
		Settings: i.Key.Settings, Adapter: i.Key.Adapter, Salted: i.Key.Salt != "", Name: i.Key.Name, Tokens: len(i.Key.Tokens),
		Bytes: i.Bytes, LastUse: i.Used, Pinned: i.Pinned}
	for _, p := range i.Parts {
		l.Parts = append(l.Parts, p.Name)
	}
	if !i.Expires.IsZero() {
		l.Expires = &i.Expires
	}
	return l
}

// listedStates are those of a directory; nil: they are not known, since it is sealed.
func listedStates(c *states.Contents) []listedState {
	if c.States == nil {
		return nil
	}
	list := make([]listedState, len(c.States))
	for i := range c.States {
		list[i] = listed(&c.States[i])
	}
	return list
}

func newStatesList() *cobra.Command {
	var key secretFlag
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list DIR",
		Short: "List the states of a directory, the most recently used first",
		Args:  oneDirectory,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			c, err := lookAtStates(cmd, args[0], &key, false)
			if err != nil {
				return err
			}
			if c.States == nil {
				return fmt.Errorf("%s is sealed; give the --secret that it is sealed with", args[0])
			}
			defer func() { err = errors.Join(err, damageOf(args[0], &c)) }()
			list := listedStates(&c)
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), map[string]any{"dir": args[0], "open": c.InUse, "bytes": c.Bytes, "content": c.Content, "states": list})
			}
			var w strings.Builder
			if len(list) > 0 {
				fmt.Fprintf(&w, "%-12s %-12s %-20s %-20s %7s %10s  %s\n", "state", "model", "engine", "name", "tokens", "bytes", "last use")
			}
			for _, l := range list {
				use := l.LastUse.Format("2006-01-02 15:04")
				if l.Pinned {
					use += ", pinned"
				}
				if l.Expires != nil {
					use += ", until " + l.Expires.Format("2006-01-02 15:04")
				}
				engine := strings.TrimSpace(printable(l.Engine) + " " + printable(l.Version))
				fmt.Fprintf(&w, "%-12.12s %-12.12s %-20.20s %-20.20s %7d %10s  %s\n",
					l.ID, cmp.Or(printable(l.Model), "-"), cmp.Or(engine, "-"), cmp.Or(printable(l.Name), "-"), l.Tokens, byteSize(l.Bytes), use)
			}
			open := ""
			if c.InUse {
				open = ", open now"
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s%s of %s in %s%s\n", w.String(), byteSize(c.Content), count(len(list), "state"), byteSize(c.Bytes), open)
			return err
		},
	}
	key.register(cmd, "the secret that the directory is sealed with")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// printable returns a text that a program has stored, with the control characters replaced by question marks.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}

func newStatesClear() *cobra.Command {
	var key secretFlag
	var unused time.Duration
	var salt string
	cmd := &cobra.Command{
		Use:   "clear DIR",
		Short: "Remove all states of a directory, or some of them",
		Long: `clear removes all states of a directory. With --unused it removes only those that were not
used for a time, and with --salt only those of one salt; with both, those to which both apply.
Pinned states are removed, too. Files that are not the store's stay. There is no prompt.`,
		Args: oneDirectory,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if unused < 0 {
				return fmt.Errorf("--unused %v: need a time from 0 on", unused)
			}
			s, err := openStates(args[0], &key)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			infos, err := s.List()
			if err != nil {
				return err
			}
			before, n := s.Stats().Bytes, 0
			var failed error
			for _, i := range infos {
				old := !cmd.Flags().Changed("unused") || time.Since(i.Used) >= unused
				if !old || cmd.Flags().Changed("salt") && i.Key.Salt != salt {
					continue
				}
				switch err := s.Delete(i.ID); {
				case err == nil:
					n++
				case !errors.Is(err, states.ErrMiss{}): // its lifetime is over
					failed = errors.Join(failed, err)
				}
			}
			left := s.Stats().Bytes
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed %s, %s; %s left\n", count(n, "state"), byteSize(before-left), byteSize(left))
			return errors.Join(failed, err)
		},
	}
	key.register(cmd, "the secret that the directory is sealed with")
	cmd.Flags().Var((*age)(&unused), "unused", "remove only states that were not used for a `TIME` such as 30d or 12h")
	cmd.Flags().StringVar(&salt, "salt", "", "remove only the states of a `SALT`; an empty one is that of states without salt")
	return cmd
}
