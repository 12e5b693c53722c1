package host

import (
	"fmt"

	"github.com/ferrumkv/ferrumkv/internal/bytesize"
)

// ErrIndex is the number of a token that the cache does not have. errors.Is(err, ErrIndex{})
// matches any.
type ErrIndex struct{ Index, Len int }

func (e ErrIndex) Error() string {
	return fmt.Sprintf("host: token %d: the cache has %d tokens", e.Index, e.Len)
}

// Is matches the same error and the zero value.
func (e ErrIndex) Is(target error) bool {
	t, ok := target.(ErrIndex)
	return ok && (t == e || t == ErrIndex{})
}

// ErrOversize is a prompt that alone exceeds the memory limit of its cache. errors.Is(err,
// ErrOversize{}) matches any.
type ErrOversize struct{ Need, Max int64 } // bytes

func (e ErrOversize) Error() string {
	return fmt.Sprintf("host: an entry of %s exceeds the cache's %s; raise MaxBytes or store a shorter prefix", bytesize.String(e.Need), bytesize.String(e.Max))
}

// Is matches the same error and the zero value.
func (e ErrOversize) Is(target error) bool {
	t, ok := target.(ErrOversize)
	return ok && (t == e || t == ErrOversize{})
}
