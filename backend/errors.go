package backend

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Sentinels, wrapped with what was asked for. Compare with errors.Is.
var (
	ErrOutOfMemory = errors.New("out of device memory")
	ErrClosed      = errors.New("closed")
	ErrFreed       = errors.New("buffer already freed")
	ErrForeign     = errors.New("belongs to another device")
	// ErrLost is a device that failed for good: nothing that was on it is trusted,
	// and only Close is left.
	ErrLost = errors.New("device lost")
)

// ErrMemory is an ErrOutOfMemory of a device that knows what it could give:
// errors.Is(err, ErrOutOfMemory) holds, and errors.Is(err, ErrMemory{}) matches any.
type ErrMemory struct {
	Op    string // operation: "alloc"
	Bytes int64  // that were asked for
	Max   int64  // that can be had, of one buffer, at this moment
}

func (e ErrMemory) Error() string {
	return fmt.Sprintf("backend: %s: %d bytes, at most %d can be had: %v", e.Op, e.Bytes, e.Max, ErrOutOfMemory)
}
func (e ErrMemory) Is(target error) bool { return target == ErrOutOfMemory || isKind(e, target) }

// ErrShape is an operand whose size, type or alignment does not fit the call.
// errors.Is(err, ErrShape{}) matches any.
type ErrShape struct {
	Package string // that found it; empty: backend
	Op      string // operation: "append"
	What    string // operand and requirement: "slots: 3 elements, need 4"
}

func (e ErrShape) Error() string {
	return fmt.Sprintf("%s: %s: %s", cmp.Or(e.Package, "backend"), e.Op, e.What)
}
func (e ErrShape) Is(target error) bool { return isKind(e, target) }

// ErrUnsupported is a valid request that this device or layout cannot do.
// errors.Is(err, ErrUnsupported{}) matches any.
type ErrUnsupported struct {
	Package string // that found it; empty: backend
	Op      string // operation: "capture"
	Why     string
}

func (e ErrUnsupported) Error() string {
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

// ErrCapture is a call that cannot become part of a graph, on a stream that is being
// captured. errors.Is(err, ErrCapture{}) matches any.
type ErrCapture struct {
	Op string // operation: "upload"
	Do string // what helps: "upload before the capture, and before each launch"
}

func (e ErrCapture) Error() string {
	return fmt.Sprintf("backend: %s: the stream is being captured into a graph: %s", e.Op, e.Do)
}
func (e ErrCapture) Is(target error) bool { return isKind(e, target) }

// ErrUnavailable is a backend that cannot be opened here, with the reason in words.
// errors.Is(err, ErrUnavailable{}) matches any.
type ErrUnavailable struct{ Backend, Why string }

func (e ErrUnavailable) Error() string {
	return fmt.Sprintf("backend: %s is not available: %s", e.Backend, e.Why)
}
func (e ErrUnavailable) Is(target error) bool { return isKind(e, target) }

// ErrCapacity is a sequence or a cache that would become longer than it may.
// errors.Is(err, ErrCapacity{}) matches any.
type ErrCapacity struct {
	Package string // that found it; empty: kvcache
	Have    int    // tokens it would have
	Max     int    // tokens it may have
}

func (e ErrCapacity) Error() string {
	return fmt.Sprintf("%s: %d tokens exceed the capacity of %d", cmp.Or(e.Package, "kvcache"), e.Have, e.Max)
}
func (e ErrCapacity) Is(target error) bool { return isKind(e, target) }

// ErrConfig is a setting that cannot be used: a field of a configuration, or an environment
// variable. errors.Is(err, ErrConfig{}) matches any.
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
