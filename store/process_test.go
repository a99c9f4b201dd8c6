package store

const (
	taskVariable   = "STORE_TEST_TASK"
	folderVariable = "STORE_TEST_FOLDER"
)

var tasks = map[string]func(dir string) error{}
