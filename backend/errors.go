package backend

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/ferrumkv/ferrumkv/internal/bytesize"
)

// Sentinel errors, wrapped with details. Compare with errors.Is.
var (
	ErrClosed      = errors.New("closed")
	ErrFreed       = errors.New("buffer already freed")
	ErrOtherDevice = errors.New("belongs to another device")
	// ErrLost is a device that failed permanently: its contents are not valid any more, and
	// only Close works.
	ErrLost = errors.New("device lost")
)

// ErrOutOfMemory is a request for more memory than the device has left. Some devices can say how much that is.
// errors.Is(err, ErrOutOfMemory{}) matches any.
type ErrOutOfMemory struct {
	Op    string // operation: "alloc"; empty: the device says no more
	Bytes int64  // requested
	Max   int64  // of the largest buffer that could be allocated at that moment
}

func (e ErrOutOfMemory) Error() string {
	if e.Op == "" {
		return "out of device memory"
	}
	requested, available := bytesize.String(e.Bytes), bytesize.String(e.Max)
	if requested == available { // the difference is less than the digits show
		requested, available = fmt.Sprintf("%d bytes", e.Bytes), fmt.Sprintf("%d", e.Max)
	}
	return fmt.Sprintf("backend: %s: out of device memory: %s requested, at most %s available", e.Op, requested, available)
}
func (e ErrOutOfMemory) Is(target error) bool { return isKind(e, target) }

// ErrArgument is an operand whose size, type or alignment does not fit the call.
// errors.Is(err, ErrArgument{}) matches any.
type ErrArgument struct {
	Package string // that found it; empty: backend
	Op      string // operation: "append"
	What    string // operand and requirement: "slots: 3 elements, need 4"
}

func (e ErrArgument) Error() string {
	if e.Op == "" {
		return cmp.Or(e.Package, "backend") + ": " + e.What
	}
	return fmt.Sprintf("%s: %s: %s", cmp.Or(e.Package, "backend"), e.Op, e.What)
}
func (e ErrArgument) Is(target error) bool { return isKind(e, target) }

// ErrUnsupported is a valid request that this device, or this configuration, cannot do.
// errors.Is(err, ErrUnsupported{}) matches any.
type ErrUnsupported struct {
	Package string // that found it; empty: backend
	Op      string // operation: "capture"
	Why     string
}

func (e ErrUnsupported) Error() string {
	if e.Op == "" {
		return cmp.Or(e.Package, "backend") + ": not supported: " + e.Why
	}
	return fmt.Sprintf("%s: %s is not supported: %s", cmp.Or(e.Package, "backend"), e.Op, e.Why)
}
func (e ErrUnsupported) Is(target error) bool { return isKind(e, target) }

// ErrNonFinite is an infinite value or a NaN that was to be quantized.
// errors.Is(err, ErrNonFinite{}) matches any.
type ErrNonFinite struct {
	Op   string // operation: "append"
	What string // where: "key of token 3, head 0"
}

func (e ErrNonFinite) Error() string {
	return fmt.Sprintf("backend: %s: %s is not finite and cannot be quantized; look for an overflow before it, or set Saturate", e.Op, e.What)
}
func (e ErrNonFinite) Is(target error) bool { return isKind(e, target) }

// ErrCapture is a call that cannot be part of a graph, on a stream that is being captured.
// errors.Is(err, ErrCapture{}) matches any.
type ErrCapture struct {
	Op string // operation: "upload"
	Do string // what to do instead: "upload before the capture, and before each launch"
}

func (e ErrCapture) Error() string {
	return fmt.Sprintf("backend: %s: the stream is being captured into a graph: %s", e.Op, e.Do)
}
func (e ErrCapture) Is(target error) bool { return isKind(e, target) }

// ErrUnavailable is a backend that cannot be opened on this machine or in this build, and why.
// errors.Is(err, ErrUnavailable{}) matches any.
type ErrUnavailable struct{ Backend, Why string }

func (e ErrUnavailable) Error() string {
	return fmt.Sprintf("backend: %s is not available: %s", e.Backend, e.Why)
}
func (e ErrUnavailable) Is(target error) bool { return isKind(e, target) }

// ErrCapacity is a sequence or a cache that would become longer than its limit. errors.Is(err,
// ErrCapacity{}) matches any.
type ErrCapacity struct {
	Package string // that found it; empty: kvcache
	Have    int    // tokens after the call
	Max     int    // most tokens allowed
	// Positions says that Have and Max count positions, of which a sequence has more than tokens where some were
	// dropped and the others kept their positions.
	Positions bool
}

func (e ErrCapacity) Error() string {
	if e.Positions {
		return fmt.Sprintf("%s: %d positions exceed the %d that the rotary embedding reaches; drop tokens with Reposition, or raise the capacity", cmp.Or(e.Package, "kvcache"), e.Have, e.Max)
	}
	return fmt.Sprintf("%s: %d tokens exceed the capacity of %d", cmp.Or(e.Package, "kvcache"), e.Have, e.Max)
}
func (e ErrCapacity) Is(target error) bool { return isKind(e, target) }

// ErrConfig is a setting that is not valid: a field of a configuration, or an environment variable.
// errors.Is(err, ErrConfig{}) matches any.
type ErrConfig struct {
	Package string // whose setting it is; empty: kvcache
	Name    string // field or variable
	Value   string
	Why     string // what it accepts
}

func (e ErrConfig) Error() string {
	value := e.Value
	if value == "" || strings.ContainsFunc(value, unicode.IsSpace) {
		value = strconv.Quote(value)
	}
	return fmt.Sprintf("%s: %s=%s: %s", cmp.Or(e.Package, "kvcache"), e.Name, value, e.Why)
}
func (e ErrConfig) Is(target error) bool { return isKind(e, target) }

// isKind reports whether target is the same error or the zero value of its type.
func isKind[E comparable](e E, target error) bool {
	t, ok := target.(E)
	var zero E
	return ok && (t == e || t == zero)
}
