package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/crc32c"
	"github.com/ferrumkv/ferrumkv/kvcache/tier/disk"
)

// diskCache is what a subfolder of a directory of --disk has: blocks of one model, in one format.
type diskCache struct {
	Folder  string            `json:"folder"`
	About   map[string]string `json:"about"`  // the model's digest, its layers, the types of keys and values, the tokens of a block
	Bytes   int64             `json:"bytes"`  // of its files
	Blocks  int               `json:"blocks"` // −1: sealed, so that it is not known
	LastUse time.Time         `json:"last_use"`
	Open    bool              `json:"open"` // by another process

	path string
}

// What package disk documents of its files: their names, in the order in which they can be removed, what meta.json says that they are, and the
// sizes of the table's header and entries, which end in a CRC32C and begin with a key that is zero where there is no block.
var filesOfDisk = [...]string{"data", "table", "meta.json.new", "meta.json", "lock"}

const (
	formatOfDisk = "FKVSLAB1"
	tableHeader  = 4096
	tableEntry   = 256
	metaMost     = 4096
)

// folderOfDisk is how disk.Path names a subfolder.
var folderOfDisk = regexp.MustCompile(`^[0-9a-f]{16}-[0-9]+$`)

// diskCaches are those of a directory, the one that was not used for longest first. Anything else there is left out.
func diskCaches(dir string) ([]*diskCache, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []*diskCache
	for _, e := range entries {
		if !e.IsDir() || !folderOfDisk.MatchString(e.Name()) {
			continue
		}
		if c, ok := readDiskCache(filepath.Join(dir, e.Name())); ok {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *diskCache) int { return a.LastUse.Compare(b.LastUse) })
	return out, nil
}

// readDiskCache reads what a folder's files say; false: they are not those of a disk tier.
func readDiskCache(path string) (c *diskCache, ok bool) {
	c = &diskCache{Folder: filepath.Base(path), path: path}
	var meta struct {
		Format    string            `json:"format"`
		Slot      int64             `json:"slot_bytes"`
		Encrypted bool              `json:"encrypted"`
		About     map[string]string `json:"about"`
	}
	text, err := readRegular(filepath.Join(path, "meta.json"), metaMost)
	if err != nil || json.Unmarshal(text, &meta) != nil || meta.Format != formatOfDisk {
		return nil, false
	}
	c.About = meta.About
	var data int64
	for _, name := range filesOfDisk {
		info, err := os.Lstat(filepath.Join(path, name))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		c.Bytes += info.Size()
		if name == "data" {
			data = info.Size()
		}
		if at := info.ModTime(); at.After(c.LastUse) { // uses are written to the table when it is closed
			c.LastUse = at
		}
	}
	if c.Blocks = -1; !meta.Encrypted && meta.Slot > 0 {
		c.Blocks = blocksOfTable(filepath.Join(path, "table"), (data+meta.Slot-1)/meta.Slot)
	}
	c.Open = isOpen(path)
	return c, true
}

// readRegular is the beginning of a file, and an error for anything that is no file: opening a pipe would wait.
func readRegular(name string, most int64) ([]byte, error) {
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errNoRegularFile)
	}
	return beginning(name, most)
}

var errNoRegularFile = errors.New("is no regular file")

// blocksOfTable counts the entries of a table that have a block, among the first slots.
func blocksOfTable(name string, slots int64) (n int) {
	if info, err := os.Lstat(name); err != nil || !info.Mode().IsRegular() {
		return 0
	}
	f, err := os.Open(name)
	if err != nil {
		return 0
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	_, err = in.Discard(tableHeader)
	for e := make([]byte, tableEntry); err == nil && slots > 0; slots-- {
		if _, err = io.ReadFull(in, e); err != nil {
			break
		}
		sound := crc32c.Sum(e[:tableEntry-4]) == binary.LittleEndian.Uint32(e[tableEntry-4:])
		if sound && slices.ContainsFunc(e[:32], func(b byte) bool { return b != 0 }) {
			n++
		}
	}
	return n
}

// isOpen reports whether a process has a cache open. It asks for a budget in which nothing has room, which package disk refuses after it
// has tried the lock and before it has written anything, but for a lock that is not there, which nobody has then.
func isOpen(path string) bool {
	if _, err := os.Lstat(filepath.Join(path, "lock")); errors.Is(err, fs.ErrNotExist) {
		return false
	}
	tier, err := disk.Open(disk.Options{Dir: path, Payload: 1, Bytes: 1, Network: true})
	if err == nil {
		_ = tier.Close()
	}
	return errors.As(err, new(disk.ErrInUse))
}

// remove removes the files of a cache, and its folder if nothing else is in there. It returns the bytes of what it removed, also with an error.
// A process that opens the cache meanwhile finds out, and computes.
func (c *diskCache) remove() (bytes int64, err error) {
	for _, name := range filesOfDisk {
		name = filepath.Join(c.path, name)
		info, err := os.Lstat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue // what is a folder or a link is nobody's but its owner's
		}
		if err := os.Remove(name); err != nil {
			return bytes, err
		}
		bytes += info.Size()
	}
	others, err := os.ReadDir(c.path)
	if err == nil && len(others) > 0 {
		return bytes, fmt.Errorf("%s: has files of others, such as %s, and stays with them", c.path, others[0].Name())
	}
	return bytes, errors.Join(err, os.Remove(c.path))
}

// format is how the blocks are stored: "K f16, V f16, blocks of 16".
func (c *diskCache) format() string {
	var parts []string
	for _, of := range [][2]string{{"K", "keys"}, {"V", "values"}} {
		if dtype := c.About[of[1]]; dtype != "" {
			parts = append(parts, of[0]+" "+dtype)
		}
	}
	if tokens := c.About["block tokens"]; tokens != "" {
		parts = append(parts, "blocks of "+tokens)
	}
	return strings.Join(parts, ", ")
}
