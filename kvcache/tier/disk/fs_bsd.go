//go:build darwin || freebsd

package disk

import "golang.org/x/sys/unix"

func (machine) Space(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := again(func() error { return unix.Statfs(dir, &s) }); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), nil
}

// Network goes by what the system says of the mount; what runs in a process of its own may claim to be local.
func (machine) Network(dir string) (string, error) {
	var s unix.Statfs_t
	if err := again(func() error { return unix.Statfs(dir, &s) }); err != nil {
		return "", err
	}
	if s.Flags&unix.MNT_LOCAL == 0 {
		return unix.ByteSliceToString(s.Fstypename[:]), nil
	}
	return "", nil
}
