# The shell functions of seed C, as it has them: run against our own files by `seed_c_shell.rs`.

# Primary checks all secondary checkpoints every 15 minutes
check_stale_agents() {
  local NOW=$(date -u +%s)

  for CHECKPOINT in agent_checkpoints/secondary_*.json; do
    if [ ! -f "$CHECKPOINT" ]; then continue; fi

    AGENT_ID=$(jq -r '.agent_id' "$CHECKPOINT")
    LAST_CHECKPOINT=$(jq -r '.last_checkpoint' "$CHECKPOINT")
    LAST_TIMESTAMP=$(date -d "$LAST_CHECKPOINT" +%s)
    AGE_SECONDS=$((NOW - LAST_TIMESTAMP))
    AGE_MINUTES=$((AGE_SECONDS / 60))

    if [ $AGE_MINUTES -gt 60 ]; then
      echo "❌ $AGENT_ID: STALE (${AGE_MINUTES} min) - Likely crashed"
      # Take action (see Recovery Procedures)
    elif [ $AGE_MINUTES -gt 30 ]; then
      echo "⚠️ $AGENT_ID: WARNING (${AGE_MINUTES} min) - May be slow"
      # Send warning message
    else
      echo "✅ $AGENT_ID: ACTIVE (${AGE_MINUTES} min ago)"
    fi
  done
}

# Before updating checkpoint, create backup
backup_checkpoint() {
  local CHECKPOINT_FILE=$1
  local BACKUP_DIR="agent_checkpoints/backups"

  mkdir -p "$BACKUP_DIR"

  # Create timestamped backup
  local TIMESTAMP=$(date +%Y%m%d_%H%M%S)
  cp "$CHECKPOINT_FILE" "$BACKUP_DIR/$(basename $CHECKPOINT_FILE .json)_$TIMESTAMP.json"

  # Keep only last 10 backups
  ls -t "$BACKUP_DIR"/$(basename $CHECKPOINT_FILE .json)_*.json | tail -n +11 | xargs rm -f
}


# If checkpoint corrupted, restore from latest backup
restore_checkpoint() {
  local CHECKPOINT_FILE=$1
  local BACKUP_DIR="agent_checkpoints/backups"

  # Find latest backup
  local LATEST_BACKUP=$(ls -t "$BACKUP_DIR"/$(basename $CHECKPOINT_FILE .json)_*.json | head -n 1)

  if [ -f "$LATEST_BACKUP" ]; then
    echo "Restoring from backup: $LATEST_BACKUP"
    cp "$LATEST_BACKUP" "$CHECKPOINT_FILE"
    echo "Checkpoint restored"
  else
    echo "ERROR: No backup found"
    return 1
  fi
}

# The seed's update, as one function.
update_checkpoint() {
# Read existing checkpoint
CHECKPOINT_FILE="agent_checkpoints/secondary_a.json"
CURRENT_CHECKPOINT=$(cat "$CHECKPOINT_FILE")
# Update checkpoint with current state
cat > "$CHECKPOINT_FILE" <<EOF
{
  "agent_id": "Secondary-A",
  "agent_type": "secondary",
  "session_id": "$(echo $CURRENT_CHECKPOINT | jq -r '.session_id')",
  "feature": "feature_02_team_penalty",
  "stage": "S2.P2",
  "phase": "Specification - In Progress",
  "last_checkpoint": "$(date -u +"%Y-%m-%dT%H:%M:%SZ")",
  "next_checkpoint_expected": "$(date -u -d "+15 minutes" +"%Y-%m-%dT%H:%M:%SZ")",
  "status": "IN_PROGRESS",
  "can_resume": true,
  "blockers": [],
  "files_modified": [
    "feature_02_team_penalty/spec.md",
    "feature_02_team_penalty/checklist.md"
  ],
  "recovery_instructions": "Resume from S2.P2 Specification Phase. spec.md is 80% complete. Complete Acceptance Criteria section, then move to checklist.md.",
  "current_step": "Writing Acceptance Criteria in spec.md",
  "completed_steps": [
    "S2.P1 complete (Research Phase)",
    "S2.P2 Phase 1: Requirements section written",
    "S2.P2 Phase 2: Integration section written"
  ],
  "next_steps": [
    "Complete Acceptance Criteria",
    "Write checklist.md questions",
    "Transition to S2.P3"
  ],
  "coordination_state": {
    "last_inbox_check": "$(date -u +"%Y-%m-%dT%H:%M:%SZ")",
    "unread_messages": 0,
    "last_epic_readme_update": "$(date -u -d "-15 minutes" +"%Y-%m-%dT%H:%M:%SZ")",
    "last_status_update": "$(date -u -d "-15 minutes" +"%Y-%m-%dT%H:%M:%SZ")"
  }
}
EOF

echo "Checkpoint updated"
}
