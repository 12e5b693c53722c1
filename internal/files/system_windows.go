package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// The modes of files say nothing here: who may use them follows from the directory that they are in.

func writable(fs.FileInfo) bool { return false }
func shared(fs.FileInfo) bool   { return false }
func foreign(fs.FileInfo) bool  { return false }

// asItIs is empty: a link that replaces a file between the check and Open is followed.
const asItIs = 0

// links is how many names an open file has.
func links(f *os.File, _ fs.FileInfo) (uint64, error) {
	var is windows.ByHandleFileInformation
	err := Control(f, func(fd uintptr) error { return windows.GetFileInformationByHandle(windows.Handle(fd), &is) })
	return uint64(is.NumberOfLinks), err
}

// Lock locks a file exclusively, without waiting, until the file is closed or the process ends. It returns ErrLocked if the file is already locked.
func Lock(f *os.File) error {
	err := Control(f, func(fd uintptr) error {
		const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
		return windows.LockFileEx(windows.Handle(fd), flags, 0, 1, 0, new(windows.Overlapped))
	})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}

// SyncDir does nothing: the entries of a directory are journaled, and a directory cannot be flushed.
func SyncDir(string) error { return nil }

// Space returns the bytes of dir's volume that are free for this process, and the size of the volume in bytes.
func Space(dir string) (free, total int64, err error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	var mine, all uint64
	err = windows.GetDiskFreeSpaceEx(path, &mine, &all, nil)
	return int64(mine), int64(all), err
}

// Network returns the type of the network file system that a directory is on, and "" if the file system is local.
func Network(dir string) (string, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	root, err := windows.UTF16PtrFromString(filepath.VolumeName(full) + `\`)
	if err != nil {
		return "", err
	}
	if windows.GetDriveType(root) == windows.DRIVE_REMOTE {
		return "network drive", nil
	}
	return "", nil
}
