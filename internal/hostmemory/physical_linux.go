package hostmemory

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Physical is the bytes of memory that the process may use, the machine's or
// those of its container; 0 when unknown.
func Physical() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	total := int64(uint64(info.Totalram) * uint64(info.Unit))
	groups, _ := os.ReadFile("/proc/self/cgroup")
	if limit := containerMemory(os.DirFS("/sys/fs/cgroup"), string(groups)); limit > 0 {
		return min(total, limit)
	}
	return total
}

// containerMemory is the limit of the process's control group and of those around it, in bytes; 0 when there is
// none. groups are lines such as 4:memory:/a/b of version 1 and 0::/a/b of version 2. A container sees its own group as
// the root, or only that one of the host's path.
func containerMemory(cgroup fs.FS, groups string) (limit int64) {
	for line := range strings.Lines(groups + "\n0::/\n0:memory:/\n") {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(line, ":")
		file := "memory.max"
		if controllers != "" {
			if !slices.Contains(strings.Split(controllers, ","), "memory") {
				continue
			}
			group, file = "memory/"+group, "memory.limit_in_bytes"
		}
		for dir := path.Clean(strings.TrimPrefix(group, "/")); ; dir = path.Dir(dir) {
			text, _ := fs.ReadFile(cgroup, path.Join(dir, file))
			l, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // "max" is none
			if err == nil && l > 0 && (limit == 0 || l < limit) {
				limit = l
			}
			if dir == "." {
				break
			}
		}
	}
	return limit
}
