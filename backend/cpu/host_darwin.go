package cpu

import "golang.org/x/sys/unix"

// physicalMemory is the bytes of the machine's memory; 0 when unknown.
func physicalMemory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int64(n)
}

// processorName is the vendor's name of the processor; "" when unknown.
func processorName() string {
	name, err := unix.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return ""
	}
	return name
}
