#define DRIVER_SLOTS 24
enum mode {
    DRIVER_SLOW = 0,
    DRIVER_FAST = 3,
};
struct driver { int handle; };
void driver_load(struct driver *d);
