module postrider.test/go-submission

go 1.19
