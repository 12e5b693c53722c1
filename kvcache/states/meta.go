package states

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// meta is what meta.json says: what a directory is.
type meta struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	Sealed  bool   `json:"sealed"`
	Check   string `json:"check,omitempty"` // of the secret
}

const (
	metaName    = "meta.json"
	metaFormat  = "ferrumkv states"
	metaLargest = 4096
)

// readMeta reads a meta.json.
func readMeta(b []byte) (m meta, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&m); err != nil {
		return meta{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return meta{}, errors.New("something follows after its end")
	}
	return m, nil
}

// differs is ErrConfig where a meta.json is not that of the store.
func (m meta) differs(s *Store) error {
	switch {
	case m.Format != metaFormat:
		return badConfig("format", "%s is for %q, and not for %q; choose another directory", s.dir, m.Format, metaFormat)
	case m.Version != schema:
		return badConfig("version", "%s has version %d, and this program reads version %d; choose another directory, or remove it", s.dir, m.Version, schema)
	case m.Sealed && s.sealer == nil:
		return badConfig("Secret", "%s is sealed; give the secret that it was made with", s.dir)
	case !m.Sealed && s.sealer != nil:
		return badConfig("Secret", "%s is in the clear; choose another directory, or give no secret", s.dir)
	case m.Sealed && m.Check != s.names.check():
		return badConfig("Secret", "%s is sealed with another secret; give that one, or choose another directory", s.dir)
	}
	return nil
}

// checkMeta compares meta.json, and writes it in a directory that has nothing yet. One that has something, and no meta.json, is no store.
func (s *Store) checkMeta() error {
	path := filepath.Join(s.dir, metaName)
	b, err := readFile(path, metaLargest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, errLength):
		return badConfig(metaName, "%s has more than %d bytes; choose another directory, or remove it", path, metaLargest)
	case err != nil:
		return refused(metaName, err)
	default:
		m, err := readMeta(b)
		if err != nil {
			return badConfig(metaName, "%s cannot be read: %v; choose another directory, or remove it", path, err)
		}
		return m.differs(s)
	}
	all, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range all {
		if isUnfinished(e.Name(), isMeta) {
			if err := s.o.disk.remove(filepath.Join(s.dir, e.Name())); err != nil {
				return err
			}
		} else if e.Name() != "lock" {
			return badConfig("dir", "%s has other files (%s) and no %s; choose an empty directory", s.dir, e.Name(), metaName)
		}
	}
	m := meta{Format: metaFormat, Version: schema, Sealed: s.sealer != nil}
	if m.Sealed {
		m.Check = s.names.check()
	}
	if b, err = json.MarshalIndent(m, "", "  "); err != nil {
		return err
	}
	return s.o.disk.whole(path, append(b, '\n'), true)
}

func isMeta(name string) bool { return name == metaName }
