// inspect of a directory shows the states that programs keep in it, or the blocks that --disk left. It changes nothing.

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/ferrumkv/ferrumkv/kvcache/states"
	"github.com/spf13/cobra"
)

const formatOfStates = "ferrumkv states"

// inspectDir shows what a directory has. verify applies to states only.
func inspectDir(cmd *cobra.Command, dir string, key *secretFlag, verify, asJSON bool) error {
	caches, err := diskCaches(dir)
	if err != nil {
		return err
	}
	format, err := formatOf(dir)
	if err != nil {
		return err
	}
	var one *diskCache
	if format == formatOfDisk {
		one, _ = readDiskCache(filepath.Clean(dir))
	}
	switch {
	case format == formatOfStates:
		return inspectStates(cmd, dir, key, verify, asJSON)
	case one != nil:
		caches = []*diskCache{one}
	case len(caches) == 0:
		return fmt.Errorf("%s is neither a directory of states nor one of --disk; name one of these, or a FILE that generate --save wrote", dir)
	}
	if verify {
		return fmt.Errorf("--verify is for directories of states, and %s is one of --disk, whose blocks are verified when they are read; leave it out", dir)
	}
	if asJSON {
		return writeJSON(cmd.OutOrStdout(), map[string]any{"dir": dir, "bytes": bytesOf(caches), "caches": caches})
	}
	return (&cacheDir{dir}).list(cmd, caches)
}

// formatOf returns the format that a directory's meta.json names, or "" if there is no such file or it names none.
func formatOf(dir string) (string, error) {
	text, err := readRegular(filepath.Join(dir, "meta.json"), metaMost)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNoRegularFile) {
		return "", nil
	}
	var meta struct {
		Format string `json:"format"`
	}
	if err == nil && json.Unmarshal(text, &meta) != nil {
		meta.Format = ""
	}
	return meta.Format, err
}

func inspectStates(cmd *cobra.Command, dir string, key *secretFlag, verify, asJSON bool) error {
	c, err := lookAtStates(cmd, dir, key, verify)
	if err != nil {
		return err
	}
	if verify && c.States == nil {
		return fmt.Errorf("--verify: %s is sealed; give the --secret that it is sealed with", dir)
	}
	if asJSON {
		damaged := map[string]string{}
		for _, d := range c.Damaged {
			damaged[d.ID.String()] = d.What
		}
		err = writeJSON(cmd.OutOrStdout(), map[string]any{"dir": dir, "version": c.Version, "sealed": c.Sealed, "open": c.InUse, "bytes": c.Bytes,
			"content": c.Content, "unique": c.Unique, "verified": verify, "states": listedStates(&c), "damaged": damaged})
	} else {
		_, err = fmt.Fprint(cmd.OutOrStdout(), textOfStates(&c, verify))
	}
	if err == nil {
		err = damageOf(dir, &c)
	}
	return err
}

// textOfStates describes the contents of a directory for people: its states by identity, without tokens and salts.
func textOfStates(c *states.Contents, verify bool) string {
	var b strings.Builder
	sealed, open := "in the clear", ""
	if c.Sealed {
		sealed = "sealed"
	}
	if c.InUse {
		open = ", open now"
	}
	fmt.Fprintf(&b, "%-12s version %d, %s, %s of files%s\n", "states", c.Version, sealed, byteSize(c.Bytes), open)
	if c.States == nil {
		return b.String() + fmt.Sprintf("%-12s to list the states, give the --secret that the directory is sealed with\n", "")
	}
	fmt.Fprintf(&b, "%-12s %s in %s, %s without duplicates\n", "content", byteSize(c.Content), count(len(c.States), "state"), byteSize(c.Unique))
	var order []states.Identity
	of := map[states.Identity][]*states.Info{}
	for i := range c.States {
		s := &c.States[i]
		if of[s.Key.Identity] == nil {
			order = append(order, s.Key.Identity)
		}
		of[s.Key.Identity] = append(of[s.Key.Identity], s)
	}
	for _, id := range order {
		fmt.Fprintf(&b, "%-12s %s\n", "identity", textOfIdentity(&id))
		for _, s := range of[id] {
			fmt.Fprintf(&b, "  %-.12s %s\n", s.ID, textOfState(s))
		}
	}
	for _, d := range c.Damaged {
		fmt.Fprintf(&b, "%-12s %-.12s %s\n", "damaged", d.ID, printable(d.What))
	}
	if verify && len(c.Damaged) == 0 {
		fmt.Fprintf(&b, "%-12s every chunk is as it was stored\n", "verified")
	}
	return b.String()
}

func textOfIdentity(i *states.Identity) string {
	engine := strings.TrimSpace(printable(i.Engine) + " " + printable(i.Version))
	out := fmt.Sprintf("model %.12s, engine %s", cmp.Or(printable(i.Model), "-"), cmp.Or(engine, "-"))
	for _, f := range [][2]string{{"settings", i.Settings}, {"adapter", i.Adapter}} {
		if f[1] != "" {
			out += fmt.Sprintf(", %s %s", f[0], printable(f[1]))
		}
	}
	if i.Salt != "" {
		out += ", salted"
	}
	return out
}

func textOfState(s *states.Info) string {
	var parts []string
	for _, p := range s.Parts {
		parts = append(parts, fmt.Sprintf("%s %s", cmp.Or(printable(p.Name), "-"), byteSize(p.Bytes)))
	}
	out := fmt.Sprintf("%s, %s, used %s", count(len(s.Key.Tokens), "token"), strings.Join(parts, " + "), s.Used.Format("2006-01-02 15:04"))
	if s.Key.Name != "" {
		out += ", named " + printable(s.Key.Name)
	}
	if s.Pinned {
		out += ", pinned"
	}
	if !s.Expires.IsZero() {
		out += ", expires " + s.Expires.Format("2006-01-02 15:04")
	}
	return out
}
