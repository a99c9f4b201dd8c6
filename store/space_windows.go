package store

import "golang.org/x/sys/windows"

// freeBytes is how much this user may still write where path lies.
func freeBytes(path string) (n int64, known bool) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, false
	}
	var available uint64
	if err := windows.GetDiskFreeSpaceEx(name, &available, nil, nil); err != nil {
		return 0, false
	}
	return int64(available), true
}
