package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"time"

	"github.com/ferrumkv/ferrumkv/internal/bytesize"
	"github.com/ferrumkv/ferrumkv/internal/seal"
	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

// Admission is which blocks are written.
type Admission string

// What may be asked for.
const (
	// All writes every block.
	All Admission = "all"
	// SecondUse writes every block while there is room and the write budget lasts, and after that those that are put a
	// second time: most blocks are never asked for again, and each one that is written makes another one go and wears the disk.
	SecondUse Admission = "second-use"
)

// DefaultFloor is the most bytes that are left free unless Options say how many.
const DefaultFloor int64 = 4 << 30

// Namespace is what the blocks of a directory have in common.
type Namespace struct {
	Fingerprint tier.Key          // of all that the content of blocks depends on besides tokens, scope and adapter
	Group       int               // of the layers that the blocks are of
	About       map[string]string // for people: the model, its digest, the format; written to meta.json
}

// Options is how a directory is opened. Dir, Payload and Namespace are needed; the zero values of all others have meaning.
type Options struct {
	Dir       string // made if it is not there; the path of one namespace, see Path
	Namespace Namespace
	Payload   int64 // bytes of the largest payload, less than 2 GiB

	// Bytes is the most that the files may take; 0: a tenth of the file system. It may be another one each time: what lies
	// beyond a smaller one is forgotten.
	Bytes int64
	// Floor is how many bytes of the file system are left free: the files do not grow below it, and are cut off where
	// others have used what is below it. 0: a twentieth of the file system, at most DefaultFloor.
	Floor int64

	Admission   Admission // "": All
	WriteBudget int64     // bytes a day, of SecondUse; 0: as many as come while there is room

	// Durable makes Put return when what it stored is on the disk whatever happens.
	Durable bool
	// Secret encrypts table and data by AES-256-GCM: 32 random bytes, which the owner keeps elsewhere. nil: not encrypted.
	Secret []byte
	// Network admits a directory on a network file system, or on one that may be: locks may not hold there, and it may be
	// slower than computing.
	Network bool

	// Logger receives what an earlier process left, wrong bytes, failed syncs and reads that are given up, and no keys. The tier does not wait for its
	// handler. nil: nothing is logged.
	Logger *slog.Logger

	foreign   bool             // as a machine of the other order of bytes
	system    fileSystem       // nil: the machine's
	now       func() time.Time // nil: time.Now
	syncBytes int64            // 0: 64 MiB
	syncEvery time.Duration    // 0: a second
	step      int64            // the bytes that data grows by; 0: 64 MiB
}

// Path is the directory of a namespace in one that has those of several.
func Path(dir string, n Namespace) string {
	return filepath.Join(dir, fmt.Sprintf("%x-%d", n.Fingerprint[:8], n.Group))
}

// Prepare makes a directory for those of namespaces, for its owner alone; tier.ErrConfig where it is another user's, or others may
// write to it: they could put directories of theirs in the place of those.
func Prepare(dir string) error {
	err := machine{}.Prepare(dir)
	if refused := (tier.ErrConfig{}); err == nil || errors.As(err, &refused) {
		return err
	}
	return tier.ErrFailed{Name: name, Op: "open " + dir, Err: err}
}

// page is what slots are aligned to, and the size of the header.
const page = 4096

// nativeBigEndian is the order of bytes of this machine, which payloads have.
var nativeBigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// filled is the options with what their zero values stand for, as far as that needs no file system.
func (o Options) filled() (Options, error) {
	bad := func(format string, args ...any) (Options, error) {
		return Options{}, tier.ErrConfig{Name: name, What: fmt.Sprintf(format, args...)}
	}
	switch {
	case o.Dir == "":
		return bad("no directory; set Dir")
	case o.Payload < 1 || o.Payload > math.MaxInt32:
		return bad("payloads of up to %d bytes, must be from 1 to %d", o.Payload, math.MaxInt32)
	case o.Namespace.Group < 0 || o.Namespace.Group > math.MaxUint16:
		return bad("group %d, must be from 0 to %d", o.Namespace.Group, math.MaxUint16)
	case o.Bytes < 0 || o.Floor < 0 || o.WriteBudget < 0:
		return bad("a budget of %d bytes, a floor of %d or a write budget of %d is negative", o.Bytes, o.Floor, o.WriteBudget)
	case o.Admission != "" && o.Admission != All && o.Admission != SecondUse:
		return bad("admission %q, must be %q or %q", o.Admission, All, SecondUse)
	case o.WriteBudget > 0 && o.Admission != SecondUse:
		return bad("a write budget needs admission %q, which says what is written when it is used up", SecondUse)
	case o.Secret != nil && len(o.Secret) != seal.SecretBytes:
		return bad("a secret of %d bytes, must have %d", len(o.Secret), seal.SecretBytes)
	}
	if o.Admission == "" {
		o.Admission = All
	}
	if o.system == nil {
		o.system = machine{}
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.syncBytes == 0 {
		o.syncBytes = 64 << 20
	}
	if o.syncEvery == 0 {
		o.syncEvery = time.Second
	}
	if o.step == 0 {
		o.step = 64 << 20
	}
	o.Namespace.About = maps.Clone(o.Namespace.About)
	return o, nil
}

// limit is how many slots of stride bytes there may be.
func (o *Options) limit(stride int64) (int64, error) {
	_, total, err := o.system.Space(o.Dir)
	if err != nil {
		return 0, tier.ErrConfig{Name: name, What: fmt.Sprintf("the free space of %s is not known: %v", o.Dir, err)}
	}
	if o.Bytes == 0 {
		o.Bytes = total / 10
	}
	if o.Floor == 0 {
		o.Floor = min(total/20, DefaultFloor)
	}
	n := (o.Bytes - 3*page) / (stride + entryBytes) // a page for the header, two for meta.json and the lock
	if n < 1 {
		return 0, tier.ErrConfig{Name: name, What: fmt.Sprintf("a budget of %s has no room for a block of %s; raise Bytes", bytesize.String(o.Bytes), bytesize.String(stride))}
	}
	return min(n, math.MaxInt32), nil
}
