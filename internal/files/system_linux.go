package files

import "golang.org/x/sys/unix"

// Space returns the bytes of dir's file system that are free for this process, and the size of the file system in bytes.
func Space(dir string) (free, total int64, err error) {
	var s unix.Statfs_t
	if err := Again(func() error { return unix.Statfs(dir, &s) }); err != nil {
		return 0, 0, err
	}
	return int64(s.Bavail) * int64(s.Frsize), int64(s.Blocks) * int64(s.Frsize), nil
}

// networks are the file systems whose files may be on another machine. Of what runs in a process of its own (fuse) and of
// directories that a virtual machine has from its host (9p, virtiofs, which says fuse) nothing more is known.
var networks = map[uint32]string{
	0x6969:     "nfs",
	0x517b:     "smb",
	0xff534d42: "cifs",
	0xfe534d42: "smb2",
	0x5346414f: "afs",
	0x6b414653: "kafs",
	0x73757245: "coda",
	0x564c:     "ncp",
	0x01021997: "9p",
	0x00c36400: "ceph",
	0x0bd00bd0: "lustre",
	0x01161970: "gfs2",
	0x7461636f: "ocfs2",
	0x47504653: "gpfs",
	0x19830326: "beegfs",
	0x65735546: "fuse",
}

// Network returns the type of the network file system that a directory is on, and "" if the file system is local.
func Network(dir string) (string, error) {
	var s unix.Statfs_t
	err := Again(func() error { return unix.Statfs(dir, &s) })
	return networks[uint32(s.Type)], err
}
