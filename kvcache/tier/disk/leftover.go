package disk

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/files"
)

// ours are the files of a tier in the order in which they go: meta.json says what those before it are.
var ours = [...]string{"data", "table", newMeta, "meta.json", "lock"}

// newMeta is a meta.json until it is written.
const newMeta = "meta.json.new"

// measuring is the beginning of the names of directories that Measure makes; digits follow. purpose is what their meta.json says
// that they are for.
const (
	measuring = "measure-"
	purpose   = "to measure the disk"
)

// sweep removes what calls of Measure left in a directory whose process was killed.
func sweep(dir string) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range all {
		number, is := strings.CutPrefix(e.Name(), measuring)
		if path := filepath.Join(dir, e.Name()); is && e.IsDir() && number != "" && strings.Trim(number, "0123456789") == "" && leftover(path) {
			_ = discard(path)
		}
	}
}

// youngest is how old a directory of Measure is before it may be taken for one that nobody uses: a new one is not locked yet.
const youngest = time.Minute

// leftover reports whether a directory has the files of Measure's tier, or no content yet, and nobody has it open.
func leftover(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !files.Owned(info) || time.Since(info.ModTime()) < youngest {
		return false
	}
	all, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	sizes := map[string]int64{}
	for _, name := range ours {
		sizes[name] = 0
	}
	for _, e := range all {
		info, err := e.Info()
		if _, known := sizes[e.Name()]; !known || err != nil || !info.Mode().IsRegular() {
			return false
		}
		sizes[e.Name()] = info.Size()
	}
	m := machine{}
	if b, err := m.ReadFile(filepath.Join(dir, "meta.json")); err == nil {
		if is, err := readMeta(b); err != nil || is.Format != magic || is.About[purpose] == "" {
			return false
		}
	} else if !os.IsNotExist(err) || sizes["data"]+sizes["table"] > 0 {
		return false
	}
	if len(all) == 0 {
		return true
	}
	lock, err := m.Open(filepath.Join(dir, "lock"))
	if err != nil {
		return false
	}
	defer lock.Close() // nobody locks it later: each Measure has a directory of its own
	return lock.Lock() == nil
}

// discard removes a directory with a tier's files, which nobody has open, and fails where there are others.
func discard(dir string) error {
	for _, name := range ours {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if err := os.Remove(dir); !os.IsNotExist(err) {
		return err
	}
	return nil
}
