"""What every part keeps, ours and those of plugins: functions that raise a line where a part does not."""
