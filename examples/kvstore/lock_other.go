//go:build !linux && !darwin && !freebsd && !windows

package kvstore

import (
	"os"
	"runtime"

	"github.com/ferrumkv/ferrumkv/backend"
)

// lock refuses: two processes in one directory would remove each other's chunks.
func lock(*os.File) error {
	return backend.ErrUnsupported{Package: "kvstore", Op: "Open", Why: "files cannot be locked on " + runtime.GOOS}
}
