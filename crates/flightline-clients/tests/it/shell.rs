//! Which command lines are hard to undo.

use flightline_clients::shell::{all_destructive, destructive};

/// Checks lines such as `git_push origin main <- git push origin main`, with `-` for a command that does no harm.
fn check(cases: &str) {
    for case in cases.lines().map(str::trim).filter(|it| !it.is_empty()) {
        let (expected, command) = case.split_once(" <- ").expect("a case has an arrow");
        let command = command.replace("⏎", "\n");
        let found = destructive(&command).map_or("-".to_owned(), |it| match it.target {
            Some(target) => format!("{} {target}", it.operation),
            None => it.operation.to_owned(),
        });
        assert_eq!(found, expected, "{command}");
    }
}

#[test]
fn git() {
    check(
        r#"
        git_push <- git push
        git_push origin main <- git push origin main
        git_push origin HEAD:main <- git push -u origin HEAD:main
        git_push origin <- git push -o ci.skip origin
        git_push <- git -C /srv/repo push
        git_push <- git -c user.name=x --no-pager push
        git_push <- /usr/bin/git push
        - <- git push --dry-run
        - <- git push -n origin main
        - <- git push --help
        git_force_push origin main <- git push --force origin main
        git_force_push <- git push -f
        git_force_push origin x <- git push -uf origin x
        git_force_push <- git push --force-with-lease
        git_force_push <- git push --force-with-lease=main:abc
        git_force_push origin +main <- git push origin +main
        git_force_push origin :old <- git push origin :old
        git_force_push origin old <- git push origin --delete old
        git_force_push <- git push --mirror
        - <- git push --force --dry-run
        git_reset_hard <- git reset --hard
        git_reset_hard HEAD~3 <- git reset --hard HEAD~3
        - <- git reset --soft HEAD~1
        - <- git reset HEAD file
        git_clean <- git clean -fdx
        git_clean <- git clean -d --force
        git_clean build <- git clean -xf -- build
        - <- git clean -n
        - <- git clean -fdn
        - <- git clean -d
        - <- git status
        - <- git log --oneline push
        - <- git stash push
        - <- git remote set-url --push origin x
        - <- git rm -r folder
        - <- git
        "#,
    );
}

#[test]
fn rm() {
    check(
        r#"
        rm_recursive build <- rm -rf build
        rm_recursive build <- rm -fr build
        rm_recursive a b <- rm -r a b
        rm_recursive a <- rm -R a
        rm_recursive a <- rm --recursive a
        rm_recursive -x <- rm -r -- -x
        rm_recursive dist <- npx rimraf dist
        rm_recursive / <- sudo rm -rf /
        - <- rm file
        - <- rm -f file
        - <- rm -- -r
        - <- rmdir folder
        - <- ls -r
        "#,
    );
}

#[test]
fn migrations() {
    check(
        r#"
        migrate <- rails db:migrate
        migrate RAILS_ENV=production <- bin/rails db:migrate RAILS_ENV=production
        migrate <- bundle exec rake db:migrate:down
        migrate <- RAILS_ENV=production bundle exec rails db:migrate
        migrate <- prisma migrate deploy
        migrate <- npx prisma migrate reset --force
        migrate <- npx --yes prisma migrate deploy
        migrate <- pnpm exec prisma migrate deploy
        migrate <- yarn prisma migrate deploy
        - <- npx prisma generate
        migrate head <- alembic upgrade head
        migrate -1 <- alembic downgrade -- -1
        migrate head <- python -m alembic upgrade head
        migrate head <- poetry run alembic -c x.ini upgrade head
        - <- alembic revision --autogenerate
        migrate <- python manage.py migrate
        migrate app <- python3 ./manage.py migrate app
        - <- python manage.py makemigrations
        migrate <- knex migrate:latest
        - <- knex migrate:make x
        migrate <- diesel migration run
        - <- diesel migration list
        migrate <- sqlx migrate run
        migrate <- cargo sqlx migrate run
        migrate <- flyway -url=jdbc:x migrate
        migrate <- goose -dir db postgres "user=x" up
        - <- goose -dir db status
        migrate <- php artisan migrate
        migrate <- migrate -path db -database x up
        migrate <- npm run migrate
        migrate <- npm run db:migrate:prod
        "#,
    );
}

#[test]
fn deployments() {
    check(
        r#"
        deploy <- kubectl apply -f k8s/
        deploy pod x <- kubectl -n prod delete pod x
        deploy deployment/x <- kubectl rollout restart deployment/x
        - <- kubectl rollout status deployment/x
        - <- kubectl get pods
        - <- kubectl apply -f x.yaml --dry-run=client
        deploy <- kubectl apply -f x.yaml --dry-run=none
        deploy <- terraform apply -auto-approve
        deploy <- terraform -chdir=infra destroy
        - <- terraform plan
        deploy app ./chart <- helm upgrade --install app ./chart -n prod
        deploy app <- helm -n prod uninstall app
        - <- helm list
        deploy <- fly deploy
        deploy <- vercel --prod
        - <- vercel dev
        deploy <- npm run deploy
        deploy <- npm run deploy:prod
        deploy <- yarn deploy
        deploy <- make deploy
        deploy <- make -C infra deploy-prod
        - <- make test
        deploy svc <- gcloud run deploy svc
        deploy <- gcloud app deploy --quiet
        deploy <- aws cloudformation deploy --stack-name
        deploy create-deployment <- aws deploy create-deployment
        - <- aws s3 ls
        deploy <- serverless deploy
        deploy org/app:1 <- docker push org/app:1
        deploy . <- docker buildx build --push .
        - <- docker build .
        - <- docker compose up -d
        deploy <- ./deploy.sh
        deploy <- bash scripts/deploy.sh
        "#,
    );
}

#[test]
fn publications() {
    check(
        r#"
        publish <- npm publish
        publish <- npm publish --access public
        - <- npm publish --dry-run
        publish <- cargo publish -p x
        - <- cargo publish --dry-run
        publish <- yarn publish
        publish <- yarn npm publish
        publish <- pnpm -r publish
        publish dist/* <- twine upload dist/*
        publish x.gem <- gem push x.gem
        publish <- poetry publish --build
        publish v1 <- gh release create v1
        - <- gh release list
        - <- npm install
        - <- npm run build
        - <- npm pack
        "#,
    );
}

#[test]
fn databases() {
    check(
        r#"
        drop_database app <- dropdb app
        drop_database app <- dropdb -h db app
        drop_database <- psql -c "DROP TABLE users"
        drop_database db <- psql db -c 'drop  schema x cascade;'
        drop_database shop <- mysql -h db -e "truncate table x" shop
        drop_database app.db <- sqlite3 app.db "DROP TABLE t"
        - <- psql -c "select * from drops"
        - <- psql -c "select * from drop_log"
        - <- createdb app
        - <- grep -r "DROP TABLE" .
        drop_database db <- psql db <<SQL⏎DROP TABLE x;⏎SQL
        "#,
    );
}

#[test]
fn commands_are_found_wherever_they_stand() {
    check(
        r#"
        git_push <- cargo test && git push
        git_push <- false || git push
        git_push <- cd x; git push
        git_push <- git push | tee log
        git_push <- git push 2>&1 | tail -n 5
        git_push <- git push > /dev/null 2>&1 &
        git_push <- sleep 1 & git push
        git_push <- cd x⏎git push
        git_push <- (cd x && git push)
        git_push <- { git push; }
        git_push <- if true; then git push; fi
        git_push origin b <- for b in a b; do git push origin b; done
        git_push <- while ! git push; do sleep 1; done
        git_push <- case x in a) git push;; esac
        git_push <- echo $(git push)
        git_push <- echo "done: $(git push)"
        git_push <- echo `git push`
        git_push <- x=$(git push) make
        git_push <- diff <(git push) b
        git_push <- sudo git push
        git_push <- sudo -u bob -E git push
        git_push <- doas git push
        git_push <- env A=b C=d git push
        git_push <- env -i -u X git push
        git_push <- A=b git push
        git_push <- GIT_SSH_COMMAND="ssh -i key" git push
        git_push <- nohup git push &
        git_push <- time git push
        git_push <- nice -n 10 git push
        git_push <- timeout -k 5 60 git push
        git_push <- sudo env A=b nice git push
        git_push origin <- cat list | xargs git push origin
        git_push origin {} <- xargs -I {} git push origin {}
        rm_recursive <- find . -name x -print0 | xargs -0 rm -rf
        rm_recursive {} <- find . -name x -exec rm -rf {} \;
        git_push <- bash -c 'git push'
        git_push <- sh -lc "cd x && git push"
        git_push <- bash -euo pipefail -c 'git push'
        git_push <- sudo bash -c "sh -c 'git push'"
        git_push <- eval "git push"
        git_push <- su -c 'git push' bob
        git_push <- bash <<'END'⏎git push⏎END
        git_push <- ssh host git push
        git_push <- ssh -p 22 host 'cd x && git push'
        rm_recursive /data <- docker exec -it web rm -rf /data
        migrate <- docker compose exec web rails db:migrate
        migrate <- kubectl exec pod -- python manage.py migrate
        git_push <- "git" 'push'
        git_push <- git \⏎  push
        git_push <- git push # to origin
        git_push <- command git push
        "#,
    );
}

#[test]
fn a_command_that_is_only_mentioned_does_no_harm() {
    check(
        r#"
        - <- echo git push
        - <- echo "git push --force"
        - <- echo 'rm -rf /'
        - <- grep -rn "git push" .
        - <- grep 'rm -rf' file | wc -l
        - <- git commit -m "git push"
        - <- git commit -m "fix; git push && rm -rf x"
        - <- git commit -m 'use $(git push)'
        - <- printf '%s\n' "npm publish"
        - <- cat <<'END' > notes⏎git push⏎rm -rf x⏎END⏎ls
        - <- # git push
        - <- ls # && git push
        - <- man git push
        - <- alias gp='git push'
        - <- which rm
        - <- rg "terraform apply" docs
        - <- sed -i 's/rm -rf/echo/' x
        - <- python -c "print('git push')"
        - <- ls \; git push
        - <- cat deploy.sh
        - <- vim migrate.py
        "#,
    );
}

#[test]
fn the_worst_comes_first() {
    check(
        r#"
        git_force_push <- git push; git push -f
        git_force_push <- rm -rf x && git push -f
        rm_recursive dist <- rm -rf dist && git push
        publish <- rm -rf dist && npm publish && git push
        drop_database app <- dropdb app; rails db:migrate
        "#,
    );
    let all = all_destructive("git push && rm -rf x && rm -rf x && rm -rf y && npm publish");
    let names: Vec<&str> = all.iter().map(|it| it.operation).collect();
    assert_eq!(
        names,
        ["publish", "rm_recursive", "rm_recursive", "git_push"]
    );
}

#[test]
fn no_text_is_too_odd() {
    let deep = format!("{}git push{}", "$(".repeat(5_000), ")".repeat(5_000));
    let quotes = "bash -c \"".repeat(2_000);
    let long = format!("echo {}; git push", "x".repeat(10_000_000));
    for odd in [
        "",
        " ",
        "\0",
        "git push\0",
        "'",
        "\"",
        "$",
        "$(",
        "`",
        "\\",
        "<<",
        "git",
        "rm",
        "sudo",
        "env -u",
        "find -exec",
        "bash -c",
        "timeout",
    ]
    .into_iter()
    .chain([deep.as_str(), quotes.as_str()])
    {
        let _ = destructive(odd);
    }
    assert_eq!(destructive(&long).map(|it| it.operation), Some("git_push"));
    for multiplying in [
        "ssh ",
        "docker exec ",
        "find -exec ",
        "bash ",
        "sudo ",
        "bash -c ",
    ] {
        let _ = destructive(&multiplying.repeat(500));
    }
    let many = "git push; ".repeat(50_000);
    assert_eq!(all_destructive(&many).len(), 1);
}
