//go:build !linux && !darwin && !freebsd && !windows

package disk

import (
	"io/fs"
	"os"
	"runtime"

	"github.com/ferrumkv/ferrumkv/kvcache/tier"
)

var errPlatform = tier.ErrConfig{Name: name, What: "there is no disk tier on " + runtime.GOOS}

func writable(fs.FileInfo) bool { return true } // nothing can be opened
func shared(fs.FileInfo) bool   { return true }
func foreign(fs.FileInfo) bool  { return true }

const asItIs = 0

func links(*os.File, fs.FileInfo) (uint64, error) { return 0, errPlatform }

func (f *osFile) Lock() error                             { return errPlatform }
func (f *osFile) Allocate(_, _ int64) error               { return errPlatform }
func (machine) SyncDir(string) error                      { return errPlatform }
func (machine) Space(string) (free, total int64, _ error) { return 0, 0, errPlatform }
func (machine) Network(string) (string, error)            { return "", errPlatform }
