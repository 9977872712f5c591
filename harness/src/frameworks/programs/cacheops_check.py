"""cacheops: results of queries, and their invalidation; over SQLite. See feature.py."""

import os
import tempfile
import time

from feature import PORT, end, equal, feature, in_threads, soon, versions

import django
from django.conf import settings

DATABASE = tempfile.NamedTemporaryFile(suffix=".sqlite")
settings.configure(
    INSTALLED_APPS=["cacheops"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE.name}},
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    CACHEOPS_REDIS=f"redis://127.0.0.1:{PORT}/1",
    CACHEOPS={"*.*": {"ops": "all", "timeout": 600}},
    CACHEOPS_INSIDEOUT=False,
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    ALLOWED_HOSTS=["*"],
    SECRET_KEY="for tests",
    USE_TZ=True,
)
django.setup()

from cacheops import cached, cached_as, cached_view_as, invalidate_all, invalidate_model, invalidate_obj
from cacheops.conf import settings as cacheops_settings
from django.db import connection, models, transaction
from django.http import HttpResponse
from django.template import Context, Template
from django.test import RequestFactory

versions("django-cacheops", "Django", "redis")


class Category(models.Model):
    title = models.CharField(max_length=100)

    class Meta:
        app_label = "cacheops"


class Post(models.Model):
    title = models.CharField(max_length=100)
    visible = models.BooleanField(default=True)
    category = models.ForeignKey(Category, models.CASCADE)

    class Meta:
        app_label = "cacheops"


with connection.schema_editor() as schema:
    schema.create_model(Category)
    schema.create_model(Post)


def begin():
    """Fills the tables, and returns a category."""
    Post.objects.all().delete()
    Category.objects.all().delete()
    categories = [Category.objects.create(title=title) for title in ("a", "b")]
    for number in range(6):
        Post.objects.create(title=str(number), category=categories[number % 2])
    return categories[0]


class asked:
    """Counts the queries that reach the database."""

    def __enter__(self):
        self.count = 0
        self.wrapper = connection.execute_wrapper(self)
        self.wrapper.__enter__()
        return self

    def __exit__(self, *error):
        self.wrapper.__exit__(*error)

    def __call__(self, execute, sql, params, many, context):
        self.count += sql.startswith("SELECT")
        return execute(sql, params, many, context)


def titles(**wanted):
    return sorted(Post.objects.filter(**wanted).values_list("title", flat=True))


def queries():
    category = begin()
    with asked() as first:
        equal((titles(category=category), titles(category=category)), (["0", "2", "4"], ["0", "2", "4"]))
        equal((Post.objects.filter(visible=True).count(), Post.objects.filter(visible=True).count()), (6, 6))
        equal((Post.objects.get(title="3").title, Post.objects.get(title="3").title), ("3", "3"))
        equal((Post.objects.filter(title="x").exists(), Post.objects.filter(title="x").exists()), (False, False))
    equal(first.count, 4)


def invalidation():
    category = begin()
    equal((titles(category=category), len(titles(visible=True))), (["0", "2", "4"], 6))
    titles(title="5")
    Post.objects.create(title="new", category=category)
    equal((titles(category=category), len(titles(visible=True))), (["0", "2", "4", "new"], 7))
    with asked() as unchanged:
        equal(titles(title="5"), ["5"])
    equal(unchanged.count, 0)
    post = Post.objects.get(title="0")
    post.visible = False
    post.save()
    equal((titles(visible=False), len(titles(visible=True))), (["0"], 6))
    Post.objects.filter(category=category).invalidated_update(title="same")
    equal(titles(category=category), ["same"] * 4)
    post.delete()
    equal(titles(category=category), ["same"] * 3)


def by_hand():
    begin()
    equal(titles(title="1"), ["1"])
    connection.cursor().execute("UPDATE cacheops_post SET title = 'raw' WHERE title = '1'")
    equal(titles(title="1"), ["1"])
    invalidate_model(Post)
    equal((titles(title="1"), titles(title="raw")), ([], ["raw"]))
    connection.cursor().execute("UPDATE cacheops_post SET title = '1' WHERE title = 'raw'")
    invalidate_all()
    equal((titles(title="raw"), titles(title="1")), ([], ["1"]))
    post = Post.objects.get(title="2")
    connection.cursor().execute("UPDATE cacheops_post SET visible = 0 WHERE title = '2'")
    invalidate_obj(post)
    equal(Post.objects.get(title="2").visible, False)


def joins():
    category = begin()
    equal(titles(category__title="a"), ["0", "2", "4"])
    category.title = "other"
    category.save()
    equal((titles(category__title="a"), titles(category__title="other")), ([], ["0", "2", "4"]))
    equal(sorted(Post.objects.filter(models.Q(title="0") | models.Q(title="1")).values_list("title")), [("0",), ("1",)])


for word, inside_out in (("", False), (", inside out", True)):

    def of_form(body, inside_out=inside_out):
        def run():
            cacheops_settings.__dict__["CACHEOPS_INSIDEOUT"] = inside_out
            body()

        return run

    feature(f"queries are cached{word}")(of_form(queries))
    feature(f"create, save, update and delete invalidate{word}")(of_form(invalidation))
    feature(f"invalidate_model, invalidate_obj, invalidate_all{word}")(of_form(by_hand))
    feature(f"joins and disjunctions{word}")(of_form(joins))
cacheops_settings.__dict__["CACHEOPS_INSIDEOUT"] = False


@feature("lock=True: one of 4 threads asks the database, others wait (BRPOPLPUSH)")
def _():
    runs = []

    @cached_as(Post.objects.all(), timeout=60, lock=True)
    def slow():
        runs.append(1)
        time.sleep(0.3)
        return "found"

    equal((in_threads(4, lambda _: slow()), len(runs)), (["found"] * 4, 1))


@feature("@cached, @cached_as, @cached_view_as, template fragments")
def _():
    category = begin()
    runs = []

    @cached(timeout=60, extra="x")
    def plain(number):
        runs.append("plain")
        return number

    @cached_as(Post.objects.filter(visible=True), timeout=60)
    def as_posts():
        runs.append("as")
        return len(runs)

    @cached_view_as(Post, timeout=60)
    def view(request):
        runs.append("view")
        return HttpResponse(f"{len(runs)}")

    request = RequestFactory().get("/a")
    equal(([plain(1), plain(1)], [as_posts(), as_posts()]), ([1, 1], [2, 2]))
    equal([view(request).content for _ in range(2)], [b"3", b"3"])
    Post.objects.create(title="more", category=category)
    equal((as_posts(), view(request).content, plain(1)), (4, b"5", 1))
    plain.invalidate(1)
    plain(1)
    text = "{% load cacheops %}{% cached_as posts 60 'part' %}{{ value }}{% endcached_as %}"
    shown = [Template(text).render(Context({"posts": Post.objects.all(), "value": value})) for value in (1, 2)]
    equal((runs.count("plain"), shown), (2, ["1", "1"]))


@feature("a transaction that is rolled back leaves the cache")
def _():
    category = begin()
    equal(len(titles(category=category)), 3)
    try:
        with transaction.atomic():
            Post.objects.create(title="lost", category=category)
            equal(len(titles(category=category)), 4)
            raise ValueError
    except ValueError:
        pass
    equal(len(titles(category=category)), 3)
    with transaction.atomic():
        Post.objects.create(title="kept", category=category)
    equal(len(titles(category=category)), 4)


@feature("results expire")
def _():
    begin()
    found = Post.objects.filter(title="1").cache(timeout=1)
    equal(len(found), 1)
    connection.cursor().execute("DELETE FROM cacheops_post WHERE title = '1'")
    equal(len(Post.objects.filter(title="1").cache(timeout=1)), 1)
    soon(lambda: len(Post.objects.filter(title="1").cache(timeout=1)) == 0)


os.unlink(DATABASE.name)
end()
