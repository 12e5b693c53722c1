package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// meta is what meta.json says: what a directory is for.
type meta struct {
	Format      string            `json:"format"`
	Version     int               `json:"version"`
	Fingerprint string            `json:"fingerprint"`
	Group       int               `json:"group"`
	Payload     int64             `json:"payload_bytes"`
	Slot        int64             `json:"slot_bytes"`
	Encrypted   bool              `json:"encrypted"`
	ByteOrder   string            `json:"byte_order"` // of the numbers in payloads
	About       map[string]string `json:"about,omitempty"`
}

// metaLargest is how long meta.json may be.
const metaLargest = page

func (o *Options) meta(c *codec) meta {
	return meta{Format: magic, Version: version, Fingerprint: c.fingerprint.String(), Group: int(c.group),
		Payload: c.payload, Slot: c.stride(), Encrypted: c.sealer != nil,
		ByteOrder: map[bool]string{false: "little-endian", true: "big-endian"}[c.bigEndian], About: o.Namespace.About}
}

// readMeta reads a meta.json.
func readMeta(b []byte) (m meta, err error) {
	if len(b) > metaLargest {
		return m, fmt.Errorf("it has more than %d bytes", metaLargest)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return meta{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return meta{}, errors.New("something follows after its end")
	}
	return m, nil
}

// differs names what two say differently, the first one being what a file says.
func (m meta) differs(o meta) string {
	for _, f := range []struct {
		name   string
		is, as any
	}{
		{"format", m.Format, o.Format}, {"version", m.Version, o.Version},
		{"fingerprint", m.Fingerprint, o.Fingerprint}, {"group", m.Group, o.Group},
		{"payload_bytes", m.Payload, o.Payload}, {"slot_bytes", m.Slot, o.Slot}, {"encrypted", m.Encrypted, o.Encrypted}, {"byte_order", m.ByteOrder, o.ByteOrder},
	} {
		if f.is != f.as {
			return fmt.Sprintf("%s is %v and not %v", f.name, f.is, f.as)
		}
	}
	if !maps.Equal(m.About, o.About) {
		return fmt.Sprintf("about is %v and not %v", m.About, o.About)
	}
	return ""
}

// checkMeta compares meta.json, if there is one; fresh: there is none.
func (o *Options) checkMeta(c *codec) (fresh bool, err error) {
	bad := func(format string, args ...any) (bool, error) {
		return false, tier.ErrConfig{Name: name, What: fmt.Sprintf("%s is for other blocks: %s; choose another directory, or remove it",
			o.Dir, fmt.Sprintf(format, args...))}
	}
	b, err := o.system.ReadFile(o.metaPath())
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	is, err := readMeta(b)
	if err != nil {
		return bad("meta.json cannot be read: %v", err)
	}
	if is.Format == magic && is.Version < version {
		return false, tier.ErrConfig{Name: name, What: fmt.Sprintf("%s has version %d, this program reads version %d only; remove the directory, and its blocks are computed again",
			o.Dir, is.Version, version)}
	}
	if d := is.differs(o.meta(c)); d != "" {
		return bad("in meta.json, %s", d)
	}
	return false, nil
}

func (o *Options) writeMeta(c *codec) error {
	b, err := json.MarshalIndent(o.meta(c), "", "  ")
	if err != nil {
		return err
	}
	if b = append(b, '\n'); len(b) > metaLargest {
		return tier.ErrConfig{Name: name, What: fmt.Sprintf("what Namespace.About says takes %d bytes, at most %d with the rest", len(b), metaLargest)}
	}
	return o.system.WriteFile(o.metaPath(), b)
}

func (o *Options) metaPath() string { return filepath.Join(o.Dir, "meta.json") }
