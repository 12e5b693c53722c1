//go:build darwin || freebsd

package files

import "golang.org/x/sys/unix"

// Space returns the bytes of dir's file system that are free for this process, and the size of the file system in bytes.
func Space(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := Again(func() error { return unix.Statfs(dir, &s) }); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}

// Network returns the type of the network file system that a directory is on, and "" if the file system is local. It trusts the flags of the mount;
// a file system that runs in a process of its own may claim to be local.
func Network(dir string) (string, error) {
	var s unix.Statfs_t
	if err := Again(func() error { return unix.Statfs(dir, &s) }); err != nil {
		return "", err
	}
	if s.Flags&unix.MNT_LOCAL == 0 {
		return unix.ByteSliceToString(s.Fstypename[:]), nil
	}
	return "", nil
}
