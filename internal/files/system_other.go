//go:build !linux && !darwin && !freebsd && !windows

package files

import (
	"io/fs"
	"os"
	"runtime"
)

var errPlatform = ErrRefused{"files cannot be locked, nor their owners be told, on " + runtime.GOOS}

func writable(fs.FileInfo) bool { return true } // nothing can be opened
func shared(fs.FileInfo) bool   { return true }
func foreign(fs.FileInfo) bool  { return true }

const asItIs = 0

func links(*os.File, fs.FileInfo) (uint64, error) { return 0, errPlatform }

// Lock fails, because files cannot be locked here.
func Lock(*os.File) error { return errPlatform }

// SyncDir fails, because this platform is not supported.
func SyncDir(string) error { return errPlatform }

// Space fails, because this platform is not supported.
func Space(string) (free, total int64, _ error) { return 0, 0, errPlatform }

// Network fails, because this platform is not supported.
func Network(string) (string, error) { return "", errPlatform }
