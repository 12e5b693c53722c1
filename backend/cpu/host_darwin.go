package cpu

import "golang.org/x/sys/unix"

// processorName is the vendor's name of the processor; "" when unknown.
func processorName() string {
	name, err := unix.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return ""
	}
	return name
}
